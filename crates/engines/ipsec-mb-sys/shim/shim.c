/*
 * The part of libipsec-mb's interface that is macros over function pointers in IMB_MGR, as plain
 * functions. All knowledge of IMB_MGR's and IMB_JOB's layout stays here; the Rust side sees opaque
 * pointers, sizes, and struct culvert_mb_job.
 *
 * No function here checks its pointers: the safe crate above does. None allocates, except
 * culvert_mb_new.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <intel-ipsec-mb.h>

/* What a burst job does; the numbers are mirrored in src/lib.rs. */
enum {
	KIND_CBC_HMAC_SEAL = 0,	/* AES-CBC encrypt, then HMAC over all of it */
	KIND_CBC_DECRYPT = 1,	/* AES-CBC decrypt, no HMAC */
	KIND_HMAC = 2,		/* HMAC, no cipher */
	KIND_CHACHA_SEAL = 3,	/* ChaCha20-Poly1305 */
	KIND_CHACHA_OPEN = 4,
};

/* Keyed hashes; mirrored in src/lib.rs. */
enum { HMAC_SHA1 = 0, HMAC_SHA256 = 1, HMAC_SHA384 = 2, HMAC_SHA512 = 3 };

struct culvert_mb_job {
	const void *keys;	/* expanded for the direction, or ChaCha20's key */
	const uint8_t *ipad;
	const uint8_t *opad;
	const uint8_t *iv;
	const uint8_t *aad;
	uint8_t *packet;
	uint8_t *tag;
	uint32_t key_len;
	uint32_t iv_len;
	uint32_t aad_len;
	uint32_t cipher_start;	/* from packet */
	uint32_t cipher_len;
	uint32_t hash_len;	/* HMAC: from packet */
	uint32_t tag_len;
	uint32_t user;		/* not touched */
	uint8_t kind;
	uint8_t hmac;
	uint8_t done;		/* out: 1 when completed without error */
	uint8_t reserved[5];
};

_Static_assert(sizeof(struct culvert_mb_job) == 96, "mirrored in src/lib.rs");

size_t culvert_mb_job_size(void) { return sizeof(struct culvert_mb_job); }
size_t culvert_mb_job_done_offset(void) { return offsetof(struct culvert_mb_job, done); }
size_t culvert_mb_gcm_key_size(void) { return sizeof(struct gcm_key_data); }
size_t culvert_mb_gcm_context_size(void) { return sizeof(struct gcm_context_data); }

/*
 * A manager for the best code path of this processor, or NULL. *error is the library's error
 * number or 0, *arch the IMB_ARCH chosen, *features the IMB_FEATURE bits in use.
 */
IMB_MGR *culvert_mb_new(int *error, int *arch, uint64_t *features)
{
	IMB_ARCH chosen = IMB_ARCH_NONE;
	IMB_MGR *mgr = alloc_mb_mgr(0);

	*arch = IMB_ARCH_NONE;
	*features = 0;
	if (mgr == NULL) {
		*error = imb_get_errno(NULL);
		return NULL;
	}
	init_mb_mgr_auto(mgr, &chosen);
	*error = imb_get_errno(mgr);
	if (*error != 0 || chosen == IMB_ARCH_NONE) {
		free_mb_mgr(mgr);
		return NULL;
	}
	*arch = (int)chosen;
	*features = mgr->features;
	return mgr;
}

/* Wipes what the manager remembers of keys and data, and frees it. */
void culvert_mb_free(IMB_MGR *mgr)
{
	imb_clear_mem(mgr, imb_get_mb_mgr_size());
	free_mb_mgr(mgr);
}

/* AES key schedules for both directions; key_len 16, 24 or 32. Returns the error number or 0. */
int culvert_mb_aes_keys(IMB_MGR *mgr, uint32_t key_len, const void *key, void *enc, void *dec)
{
	switch (key_len) {
	case 16:
		IMB_AES_KEYEXP_128(mgr, key, enc, dec);
		break;
	case 24:
		IMB_AES_KEYEXP_192(mgr, key, enc, dec);
		break;
	case 32:
		IMB_AES_KEYEXP_256(mgr, key, enc, dec);
		break;
	default:
		return IMB_ERR_KEY_LEN;
	}
	return imb_get_errno(mgr);
}

/* AES-GCM's key schedule and hash keys; key_len 16, 24 or 32. Returns the error number or 0. */
int culvert_mb_gcm_keys(IMB_MGR *mgr, uint32_t key_len, const void *key, struct gcm_key_data *out)
{
	switch (key_len) {
	case 16:
		IMB_AES128_GCM_PRE(mgr, key, out);
		break;
	case 24:
		IMB_AES192_GCM_PRE(mgr, key, out);
		break;
	case 32:
		IMB_AES256_GCM_PRE(mgr, key, out);
		break;
	default:
		return IMB_ERR_KEY_LEN;
	}
	return imb_get_errno(mgr);
}

static void one_block(IMB_MGR *mgr, uint32_t hmac, const void *block, void *state)
{
	switch (hmac) {
	case HMAC_SHA1:
		IMB_SHA1_ONE_BLOCK(mgr, block, state);
		break;
	case HMAC_SHA256:
		IMB_SHA256_ONE_BLOCK(mgr, block, state);
		break;
	case HMAC_SHA384:
		IMB_SHA384_ONE_BLOCK(mgr, block, state);
		break;
	default:
		IMB_SHA512_ONE_BLOCK(mgr, block, state);
		break;
	}
}

/*
 * HMAC's two hash states after the padded key, 64 bytes of room each. A key longer than the hash's
 * block is hashed first (RFC 2104). Returns the error number or 0.
 */
int culvert_mb_hmac_keys(IMB_MGR *mgr, uint32_t hmac, const void *key, size_t key_len,
			 void *ipad, void *opad)
{
	const size_t block_len = (hmac == HMAC_SHA1 || hmac == HMAC_SHA256) ? 64 : 128;
	uint8_t block[128] = { 0 };
	int error = 0;
	size_t i;

	if (hmac > HMAC_SHA512)
		return IMB_ERR_HASH_ALGO;
	if (key_len <= block_len) {
		memcpy(block, key, key_len);
	} else {
		switch (hmac) {
		case HMAC_SHA1:
			IMB_SHA1(mgr, key, key_len, block);
			break;
		case HMAC_SHA256:
			IMB_SHA256(mgr, key, key_len, block);
			break;
		case HMAC_SHA384:
			IMB_SHA384(mgr, key, key_len, block);
			break;
		default:
			IMB_SHA512(mgr, key, key_len, block);
			break;
		}
		error = imb_get_errno(mgr);
	}
	if (error == 0) {
		for (i = 0; i < sizeof(block); i++)
			block[i] ^= 0x36;
		one_block(mgr, hmac, block, ipad);
		error = imb_get_errno(mgr);
	}
	if (error == 0) {
		for (i = 0; i < sizeof(block); i++)
			block[i] ^= 0x36 ^ 0x5c;
		one_block(mgr, hmac, block, opad);
		error = imb_get_errno(mgr);
	}
	imb_clear_mem(block, sizeof(block));
	return error;
}

/* AES-GCM over one text in place, 12-byte iv. Returns the error number or 0. */
int culvert_mb_gcm_seal(IMB_MGR *mgr, uint32_t key_len, const struct gcm_key_data *keys,
			struct gcm_context_data *ctx, uint8_t *text, uint64_t text_len,
			const uint8_t *iv, const uint8_t *aad, uint64_t aad_len, uint8_t *tag,
			uint64_t tag_len)
{
	switch (key_len) {
	case 16:
		IMB_AES128_GCM_ENC(mgr, keys, ctx, text, text, text_len, iv, aad, aad_len, tag,
				   tag_len);
		break;
	case 24:
		IMB_AES192_GCM_ENC(mgr, keys, ctx, text, text, text_len, iv, aad, aad_len, tag,
				   tag_len);
		break;
	case 32:
		IMB_AES256_GCM_ENC(mgr, keys, ctx, text, text, text_len, iv, aad, aad_len, tag,
				   tag_len);
		break;
	default:
		return IMB_ERR_KEY_LEN;
	}
	return imb_get_errno(mgr);
}

/* The same the other way; tag receives the computed tag, the caller compares. */
int culvert_mb_gcm_open(IMB_MGR *mgr, uint32_t key_len, const struct gcm_key_data *keys,
			struct gcm_context_data *ctx, uint8_t *text, uint64_t text_len,
			const uint8_t *iv, const uint8_t *aad, uint64_t aad_len, uint8_t *tag,
			uint64_t tag_len)
{
	switch (key_len) {
	case 16:
		IMB_AES128_GCM_DEC(mgr, keys, ctx, text, text, text_len, iv, aad, aad_len, tag,
				   tag_len);
		break;
	case 24:
		IMB_AES192_GCM_DEC(mgr, keys, ctx, text, text, text_len, iv, aad, aad_len, tag,
				   tag_len);
		break;
	case 32:
		IMB_AES256_GCM_DEC(mgr, keys, ctx, text, text, text_len, iv, aad, aad_len, tag,
				   tag_len);
		break;
	default:
		return IMB_ERR_KEY_LEN;
	}
	return imb_get_errno(mgr);
}

static const IMB_HASH_ALG hash_alg[] = {
	[HMAC_SHA1] = IMB_AUTH_HMAC_SHA_1,
	[HMAC_SHA256] = IMB_AUTH_HMAC_SHA_256,
	[HMAC_SHA384] = IMB_AUTH_HMAC_SHA_384,
	[HMAC_SHA512] = IMB_AUTH_HMAC_SHA_512,
};

static void fill(IMB_JOB *to, struct culvert_mb_job *from)
{
	const int open = from->kind == KIND_CBC_DECRYPT || from->kind == KIND_CHACHA_OPEN;

	to->enc_keys = from->keys;
	to->dec_keys = from->keys;
	to->key_len_in_bytes = from->key_len;
	to->src = from->packet;
	to->dst = from->packet + from->cipher_start;
	to->cipher_start_src_offset_in_bytes = from->cipher_start;
	to->msg_len_to_cipher_in_bytes = from->cipher_len;
	to->hash_start_src_offset_in_bytes = 0;
	to->msg_len_to_hash_in_bytes = from->hash_len;
	to->iv = from->iv;
	to->iv_len_in_bytes = from->iv_len;
	to->auth_tag_output = from->tag;
	to->auth_tag_output_len_in_bytes = from->tag_len;
	to->cipher_direction = open ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
	to->chain_order = open ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
	to->user_data = from;

	switch (from->kind) {
	case KIND_CBC_HMAC_SEAL:
	case KIND_HMAC:
		to->cipher_mode = from->kind == KIND_HMAC ? IMB_CIPHER_NULL : IMB_CIPHER_CBC;
		to->hash_alg = hash_alg[from->hmac & 3];
		to->u.HMAC._hashed_auth_key_xor_ipad = from->ipad;
		to->u.HMAC._hashed_auth_key_xor_opad = from->opad;
		break;
	case KIND_CBC_DECRYPT:
		to->cipher_mode = IMB_CIPHER_CBC;
		to->hash_alg = IMB_AUTH_NULL;
		break;
	default:
		to->cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
		to->hash_alg = IMB_AUTH_CHACHA20_POLY1305;
		to->hash_start_src_offset_in_bytes = from->cipher_start;
		to->msg_len_to_hash_in_bytes = from->cipher_len;
		to->u.CHACHA20_POLY1305.aad = from->aad;
		to->u.CHACHA20_POLY1305.aad_len_in_bytes = from->aad_len;
		break;
	}
}

static uint32_t settle(IMB_JOB *const *jobs, uint32_t n)
{
	uint32_t i, done = 0;

	for (i = 0; i < n; i++) {
		struct culvert_mb_job *job = jobs[i]->user_data;

		job->done = jobs[i]->status == IMB_STATUS_COMPLETED;
		done += job->done;
	}
	return done;
}

/*
 * Runs n jobs to their end and sets done of each. Nothing stays queued. Returns the number of jobs
 * that are done. If a job was refused or the library reported an error, the manager is set up
 * afresh, so that no pointer into a packet is left in it.
 */
uint32_t culvert_mb_burst(IMB_MGR *mgr, struct culvert_mb_job *jobs, uint32_t n)
{
	IMB_JOB *slots[IMB_MAX_BURST_SIZE];
	uint32_t i, at = 0, done = 0, seen = 0;
	int error = 0;

	for (i = 0; i < n; i++)
		jobs[i].done = 0;

	while (at < n && error == 0) {
		uint32_t want = n - at;
		uint32_t got;

		if (want > IMB_MAX_BURST_SIZE)
			want = IMB_MAX_BURST_SIZE;
		got = IMB_GET_NEXT_BURST(mgr, want, slots);
		if (got == 0) {
			error = IMB_ERR_QUEUE_SPACE;
			break;
		}
		for (i = 0; i < got; i++)
			fill(slots[i], &jobs[at + i]);
		at += got;
		got = IMB_SUBMIT_BURST(mgr, got, slots);
		error = imb_get_errno(mgr);
		if (error != 0)
			break;
		done += settle(slots, got);
		seen += got;
		while (seen < at) {
			got = IMB_FLUSH_BURST(mgr, IMB_MAX_BURST_SIZE, slots);
			error = imb_get_errno(mgr);
			if (got == 0 || error != 0)
				break;
			done += settle(slots, got);
			seen += got;
		}
		if (seen != at && error == 0)
			error = IMB_ERR_QUEUE_SPACE;
	}
	if (error != 0) {
		IMB_ARCH arch;

		init_mb_mgr_auto(mgr, &arch);
	}
	return done;
}
