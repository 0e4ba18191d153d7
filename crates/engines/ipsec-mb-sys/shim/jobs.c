/*
 * What has no burst of its own: jobs of any mixture through the library's scheduler, and AES-GMAC by direct calls.
 */
#include <string.h>

#include "shim.h"

static const IMB_HASH_ALG hash_alg[] = {
	[HMAC_SHA1] = IMB_AUTH_HMAC_SHA_1,
	[HMAC_SHA256] = IMB_AUTH_HMAC_SHA_256,
	[HMAC_SHA384] = IMB_AUTH_HMAC_SHA_384,
	[HMAC_SHA512] = IMB_AUTH_HMAC_SHA_512,
	[MAC_XCBC] = IMB_AUTH_AES_XCBC,
	[MAC_CMAC] = IMB_AUTH_AES_CMAC,
	[MAC_CCM] = IMB_AUTH_AES_CCM,
};

static const IMB_CIPHER_MODE cipher_mode[] = {
	[CIPHER_NULL] = IMB_CIPHER_NULL,
	[CIPHER_CBC] = IMB_CIPHER_CBC,
	[CIPHER_CTR] = IMB_CIPHER_CNTR,
	[CIPHER_CCM] = IMB_CIPHER_CCM,
};

/* Expanded AES-128 keys, in bytes. */
enum { SCHEDULE_LEN = 11 * 16 };

/*
 * The key of AES-XCBC-MAC or AES-CMAC: a schedule and two blocks, aligned to 16. Returns the error number or 0.
 */
int culvert_mb_mac_keys(IMB_MGR *mgr, uint32_t hash, const void *key, void *out)
{
	uint8_t dec[SCHEDULE_LEN] __attribute__((aligned(16)));
	uint8_t *k2 = (uint8_t *)out + SCHEDULE_LEN;
	uint8_t *k3 = k2 + 16;
	int error;

	if (hash == MAC_XCBC) {
		IMB_AES_XCBC_KEYEXP(mgr, key, out, k2, k3);
		return imb_get_errno(mgr);
	}
	if (hash != MAC_CMAC)
		return IMB_ERR_HASH_ALGO;
	IMB_AES_KEYEXP_128(mgr, key, out, dec);
	error = imb_get_errno(mgr);
	if (error == 0) {
		IMB_AES_CMAC_SUBKEY_GEN_128(mgr, out, k2, k3);
		error = imb_get_errno(mgr);
	}
	imb_clear_mem(dec, sizeof(dec));
	return error;
}

/* AES-GMAC's functions of this processor's code path. */
void culvert_mb_gmac_functions(const IMB_MGR *mgr, struct culvert_mb_gmac_calls *calls)
{
	calls->init[0] = mgr->gmac128_init;
	calls->init[1] = mgr->gmac192_init;
	calls->init[2] = mgr->gmac256_init;
	calls->update[0] = mgr->gmac128_update;
	calls->update[1] = mgr->gmac192_update;
	calls->update[2] = mgr->gmac256_update;
	calls->finish[0] = mgr->gmac128_finalize;
	calls->finish[1] = mgr->gmac192_finalize;
	calls->finish[2] = mgr->gmac256_finalize;
}

static void describe(IMB_JOB *job, const struct culvert_mb_packet *from)
{
	const int ccm = from->cipher == CIPHER_CCM;

	job->enc_keys = from->keys;
	job->dec_keys = from->keys;
	job->key_len_in_bytes = from->key_len;
	job->src = from->packet;
	job->dst = from->packet + from->text;
	job->cipher_start_src_offset_in_bytes = from->text;
	job->msg_len_to_cipher_in_bytes = from->text_len;
	job->hash_start_src_offset_in_bytes = ccm ? from->text : 0;
	job->msg_len_to_hash_in_bytes = ccm ? from->text_len : from->hash_len;
	job->iv = from->iv;
	job->iv_len_in_bytes = ccm ? 11 : 16;
	job->auth_tag_output = from->tag;
	job->auth_tag_output_len_in_bytes = from->tag_len;
	job->cipher_mode = cipher_mode[from->cipher];
	job->hash_alg = hash_alg[from->hash];
	job->cipher_direction = from->open ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
	/* AES-CCM authenticates the plaintext, all else the ciphertext. */
	job->chain_order = (from->open != 0) == ccm ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
	switch (from->hash) {
	case MAC_CCM:
		job->u.CCM.aad = from->mac;
		job->u.CCM.aad_len_in_bytes = from->aad_len;
		break;
	case MAC_XCBC:
		job->u.XCBC._k1_expanded = (const uint32_t *)(const void *)from->mac;
		job->u.XCBC._k2 = from->mac + SCHEDULE_LEN;
		job->u.XCBC._k3 = from->mac + SCHEDULE_LEN + 16;
		break;
	case MAC_CMAC:
		job->u.CMAC._key_expanded = from->mac;
		job->u.CMAC._skey1 = from->mac + SCHEDULE_LEN;
		job->u.CMAC._skey2 = from->mac + SCHEDULE_LEN + 16;
		break;
	default:
		job->u.HMAC._hashed_auth_key_xor_ipad = from->mac;
		job->u.HMAC._hashed_auth_key_xor_opad = from->mac + from->aad_len;
		break;
	}
}

/*
 * Runs n packets, at most as many as the library queues. Jobs come back in the order in which they went in. Returns
 * n, or 0 if the library failed.
 */
uint32_t culvert_mb_jobs(IMB_MGR *mgr, const struct culvert_mb_packet *packets, uint32_t n)
{
	uint32_t i, done = 0;
	IMB_JOB *job;

	for (i = 0; i < n; i++) {
		job = IMB_GET_NEXT_JOB(mgr);
		describe(job, &packets[i]);
		for (job = IMB_SUBMIT_JOB_NOCHECK(mgr); job != NULL; job = IMB_GET_COMPLETED_JOB(mgr)) {
			if (job->status != IMB_STATUS_COMPLETED)
				return culvert_mb_refused(mgr);
			done++;
		}
	}
	while (done < n) {
		job = IMB_FLUSH_JOB(mgr);
		if (job == NULL || job->status != IMB_STATUS_COMPLETED)
			return culvert_mb_refused(mgr);
		done++;
	}
	return done == n ? n : culvert_mb_refused(mgr);
}
