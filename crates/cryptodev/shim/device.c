/* A crypto device as a whole: what it can do, its queue pairs, its sessions. */

/* Of DPDK 22.11 the pool of sessions. */
#define ALLOW_EXPERIMENTAL_API

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_crypto.h>
#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_errno.h>

#include "shim.h"
#include "places.h"

static const enum rte_crypto_aead_algorithm aeads[] = {
	[AEAD_GCM] = RTE_CRYPTO_AEAD_AES_GCM,
	[AEAD_CCM] = RTE_CRYPTO_AEAD_AES_CCM,
	[AEAD_CHACHA] = RTE_CRYPTO_AEAD_CHACHA20_POLY1305,
};

static const enum rte_crypto_cipher_algorithm ciphers[] = {
	[CIPHER_AES_CBC] = RTE_CRYPTO_CIPHER_AES_CBC,
	[CIPHER_AES_CTR] = RTE_CRYPTO_CIPHER_AES_CTR,
	[CIPHER_3DES_CBC] = RTE_CRYPTO_CIPHER_3DES_CBC,
	[CIPHER_DES_CBC] = RTE_CRYPTO_CIPHER_DES_CBC,
};

static const enum rte_crypto_auth_algorithm auths[] = {
	[AUTH_MD5] = RTE_CRYPTO_AUTH_MD5_HMAC,
	[AUTH_SHA1] = RTE_CRYPTO_AUTH_SHA1_HMAC,
	[AUTH_SHA256] = RTE_CRYPTO_AUTH_SHA256_HMAC,
	[AUTH_SHA384] = RTE_CRYPTO_AUTH_SHA384_HMAC,
	[AUTH_SHA512] = RTE_CRYPTO_AUTH_SHA512_HMAC,
	[AUTH_XCBC] = RTE_CRYPTO_AUTH_AES_XCBC_MAC,
	[AUTH_CMAC] = RTE_CRYPTO_AUTH_AES_CMAC,
	[AUTH_GMAC] = RTE_CRYPTO_AUTH_AES_GMAC,
};

/* Some drivers make several devices of one address, as 0000:3d:01.0_qat_sym. */
static int is_called(const char *own, const char *name, int is_address)
{
	size_t len = strlen(name);

	if (own == NULL || strncmp(own, name, len) != 0)
		return 0;
	return own[len] == '\0' || (is_address && own[len] == '_');
}

/* The device of this name, or one at this address of its bus; negative if there is none for symmetric crypto. */
int culvert_cd_find(const char *name, int is_address)
{
	int id;

	for (id = 0; id < RTE_CRYPTO_MAX_DEVS; id++) {
		struct rte_cryptodev_info info;

		if (!rte_cryptodev_is_valid_dev((uint8_t)id))
			continue;
		rte_cryptodev_info_get((uint8_t)id, &info);
		if ((info.feature_flags & RTE_CRYPTODEV_FF_SYMMETRIC_CRYPTO) == 0)
			continue;
		if (is_called(rte_cryptodev_name_get((uint8_t)id), name, is_address))
			return id;
		if (info.device != NULL && is_called(rte_dev_name(info.device), name, is_address))
			return id;
	}
	return -1;
}

void culvert_cd_facts(uint8_t id, struct culvert_cd_facts *facts)
{
	struct rte_cryptodev_info info;

	rte_cryptodev_info_get(id, &info);
	facts->name = rte_cryptodev_name_get(id);
	facts->driver = info.driver_name;
	facts->most_pairs = info.max_nb_queue_pairs;
	facts->most_sessions = info.sym.max_nb_sessions;
	facts->has_chains = (info.feature_flags & RTE_CRYPTODEV_FF_SYM_OPERATION_CHAINING) != 0;
}

static int does_auth(uint8_t id, const struct culvert_cd_transform *t)
{
	const struct rte_cryptodev_sym_capability_idx of = {
		.type = RTE_CRYPTO_SYM_XFORM_AUTH, .algo.auth = auths[t->auth],
	};
	const struct rte_cryptodev_symmetric_capability *found = rte_cryptodev_sym_capability_get(id, &of);
	uint16_t iv_len = t->auth == AUTH_GMAC ? t->iv_len : 0;

	return found != NULL &&
	       rte_cryptodev_sym_capability_check_auth(found, t->auth_key_len, t->icv_len, iv_len) == 0;
}

static int does_cipher(uint8_t id, const struct culvert_cd_transform *t)
{
	const struct rte_cryptodev_sym_capability_idx of = {
		.type = RTE_CRYPTO_SYM_XFORM_CIPHER, .algo.cipher = ciphers[t->cipher],
	};
	const struct rte_cryptodev_symmetric_capability *found = rte_cryptodev_sym_capability_get(id, &of);

	return found != NULL &&
	       rte_cryptodev_sym_capability_check_cipher(found, t->cipher_key_len, t->iv_len) == 0;
}

static int does_aead(uint8_t id, const struct culvert_cd_transform *t)
{
	const struct rte_cryptodev_sym_capability_idx of = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD, .algo.aead = aeads[t->cipher],
	};
	const struct rte_cryptodev_symmetric_capability *found = rte_cryptodev_sym_capability_get(id, &of);

	return found != NULL && rte_cryptodev_sym_capability_check_aead(found, t->cipher_key_len, t->icv_len,
									 t->aad_len, t->iv_len) == 0;
}

/* Whether the device's capabilities name all that a transform needs. */
int culvert_cd_does(uint8_t id, const struct culvert_cd_transform *t)
{
	switch (t->kind) {
	case KIND_AEAD:
		return does_aead(id, t);
	case KIND_CHAIN:
		return does_cipher(id, t) && does_auth(id, t);
	default:
		return does_auth(id, t);
	}
}

/* Memory for so many sessions, whose size may hang on the number of queue pairs; NULL if there is none. */
static struct rte_mempool *new_sessions(uint8_t id, uint32_t count)
{
	char name[RTE_MEMZONE_NAMESIZE];
	uint32_t size = rte_cryptodev_sym_get_private_session_size(id);

	snprintf(name, sizeof(name), "culvert-sa-%u", id);
	return rte_cryptodev_sym_session_pool_create(name, count, size, 0, 0, rte_cryptodev_socket_id(id));
}

/*
 * Stops the device if it runs, sets up so many queue pairs and starts it; with memory for so many sessions, unless it
 * has some. 0, or a negative errno.
 */
int culvert_cd_bring_up(uint8_t id, uint16_t pairs, uint32_t depth, struct rte_mempool **sessions, uint32_t count)
{
	int node = rte_cryptodev_socket_id(id);
	struct rte_cryptodev_config config = { .socket_id = node, .nb_queue_pairs = pairs };
	struct rte_cryptodev_qp_conf of_pair = { .nb_descriptors = depth };
	uint16_t pair;
	int error;

	/* It has run before. */
	if (*sessions != NULL)
		rte_cryptodev_stop(id);
	error = rte_cryptodev_configure(id, &config);
	if (error == 0 && *sessions == NULL) {
		*sessions = new_sessions(id, count);
		error = *sessions != NULL ? 0 : -ENOMEM;
	}
	of_pair.mp_session = *sessions;
	for (pair = 0; error == 0 && pair < pairs; pair++)
		error = rte_cryptodev_queue_pair_setup(id, pair, &of_pair, node);
	return error != 0 ? error : rte_cryptodev_start(id);
}

/* Stops the device for good, and frees the memory of its sessions, of which none is left. */
void culvert_cd_close(uint8_t id, struct rte_mempool *sessions)
{
	rte_cryptodev_stop(id);
	rte_cryptodev_close(id);
	rte_mempool_free(sessions);
}

/* A session with these keys, or NULL: the driver does not take it, or there is no memory. */
void *culvert_cd_session(uint8_t id, struct rte_mempool *sessions, const struct culvert_cd_transform *t, int is_seal,
			 const uint8_t *cipher_key, const uint8_t *auth_key)
{
	struct rte_crypto_sym_xform cipher = { .type = RTE_CRYPTO_SYM_XFORM_CIPHER };
	struct rte_crypto_sym_xform auth = { .type = RTE_CRYPTO_SYM_XFORM_AUTH };
	struct rte_crypto_sym_xform *first = &auth;

	if (t->kind == KIND_AEAD) {
		struct rte_crypto_sym_xform aead = { .type = RTE_CRYPTO_SYM_XFORM_AEAD };

		aead.aead.op = is_seal ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT;
		aead.aead.algo = aeads[t->cipher];
		aead.aead.key.data = cipher_key;
		aead.aead.key.length = t->cipher_key_len;
		aead.aead.iv.offset = IV_AT;
		aead.aead.iv.length = t->iv_len;
		aead.aead.digest_length = t->icv_len;
		aead.aead.aad_length = t->aad_len;
		return rte_cryptodev_sym_session_create(id, &aead, sessions);
	}
	auth.auth.op = is_seal ? RTE_CRYPTO_AUTH_OP_GENERATE : RTE_CRYPTO_AUTH_OP_VERIFY;
	auth.auth.algo = auths[t->auth];
	auth.auth.key.data = auth_key;
	auth.auth.key.length = t->auth_key_len;
	auth.auth.digest_length = t->icv_len;
	if (t->auth == AUTH_GMAC) {
		auth.auth.iv.offset = IV_AT;
		auth.auth.iv.length = t->iv_len;
	}
	if (t->kind == KIND_CHAIN) {
		cipher.cipher.op = is_seal ? RTE_CRYPTO_CIPHER_OP_ENCRYPT : RTE_CRYPTO_CIPHER_OP_DECRYPT;
		cipher.cipher.algo = ciphers[t->cipher];
		cipher.cipher.key.data = cipher_key;
		cipher.cipher.key.length = t->cipher_key_len;
		cipher.cipher.iv.offset = IV_AT;
		cipher.cipher.iv.length = t->iv_len;
		/* Encrypt, then authenticate; and the other way. */
		if (is_seal) {
			first = &cipher;
			cipher.next = &auth;
		} else {
			auth.next = &cipher;
		}
	}
	return rte_cryptodev_sym_session_create(id, first, sessions);
}

void culvert_cd_session_free(uint8_t id, void *session) { rte_cryptodev_sym_session_free(id, session); }
