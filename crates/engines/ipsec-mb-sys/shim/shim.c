/*
 * The part of libipsec-mb's interface that is macros over function pointers in IMB_MGR, as plain
 * functions. All knowledge of IMB_MGR's and IMB_JOB's layout stays here; the Rust side sees opaque
 * pointers, sizes, struct culvert_mb_chacha and struct culvert_mb_gcm_calls.
 *
 * No function here checks its pointers: the safe crate above does. None allocates, except
 * culvert_mb_new.
 */
#include <string.h>

#include "shim.h"

static const IMB_HASH_ALG hash_alg[] = {
	[HMAC_SHA1] = IMB_AUTH_HMAC_SHA_1,
	[HMAC_SHA256] = IMB_AUTH_HMAC_SHA_256,
	[HMAC_SHA384] = IMB_AUTH_HMAC_SHA_384,
	[HMAC_SHA512] = IMB_AUTH_HMAC_SHA_512,
};

/* Truncated lengths (RFC 2404, RFC 4868). */
static const uint8_t tag_len[] = {
	[HMAC_SHA1] = 12,
	[HMAC_SHA256] = 16,
	[HMAC_SHA384] = 24,
	[HMAC_SHA512] = 32,
};

size_t culvert_mb_batch_size(void) { return sizeof(struct culvert_mb_batch); }
size_t culvert_mb_gcm_key_size(void) { return sizeof(struct gcm_key_data); }
size_t culvert_mb_gcm_context_size(void) { return sizeof(struct gcm_context_data); }

/* Sets a manager up for a code path, or with IMB_ARCH_NONE for the best one of this processor. Returns the path. */
static IMB_ARCH set_up(IMB_MGR *mgr, IMB_ARCH path)
{
	switch (path) {
	case IMB_ARCH_SSE:
		init_mb_mgr_sse(mgr);
		return path;
	case IMB_ARCH_AVX:
		init_mb_mgr_avx(mgr);
		return path;
	case IMB_ARCH_AVX2:
		init_mb_mgr_avx2(mgr);
		return path;
	case IMB_ARCH_AVX512:
		init_mb_mgr_avx512(mgr);
		return path;
	default:
		init_mb_mgr_auto(mgr, &path);
		return path;
	}
}

/*
 * A manager for a code path as set_up() knows it, without the instructions that the IMB_FLAG bits in
 * flags switch off; or NULL. *error is the library's error number or 0, *arch the IMB_ARCH chosen,
 * *features the IMB_FEATURE bits in use.
 */
IMB_MGR *culvert_mb_new(int path, uint64_t flags, int *error, int *arch, uint64_t *features)
{
	IMB_ARCH chosen;
	IMB_MGR *mgr = alloc_mb_mgr(flags);

	*arch = IMB_ARCH_NONE;
	*features = 0;
	if (mgr == NULL) {
		*error = imb_get_errno(NULL);
		return NULL;
	}
	chosen = set_up(mgr, (IMB_ARCH)path);
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

/* AES-GCM's functions of this processor's code path. */
void culvert_mb_gcm_functions(const IMB_MGR *mgr, struct culvert_mb_gcm_calls *calls)
{
	calls->seal[0] = mgr->gcm128_enc;
	calls->seal[1] = mgr->gcm192_enc;
	calls->seal[2] = mgr->gcm256_enc;
	calls->open[0] = mgr->gcm128_dec;
	calls->open[1] = mgr->gcm192_dec;
	calls->open[2] = mgr->gcm256_dec;
}

/* What the library must not do happened: makes sure that no pointer into a packet is left in it. */
uint32_t culvert_mb_refused(IMB_MGR *mgr)
{
	set_up(mgr, (IMB_ARCH)mgr->used_arch);
	return 0;
}

/*
 * Fills the parts of all jobs that are the same for all packets of a suite and direction, if the
 * batch is not already filled so. key_len is 0 for HMAC alone.
 */
void culvert_mb_shape(struct culvert_mb_batch *batch, uint32_t key_len, uint32_t hmac,
		      uint32_t open)
{
	const uint32_t wanted = 1 | open << 8 | hmac << 16 | key_len << 24;
	uint32_t i;

	if (batch->shape == wanted)
		return;
	for (i = 0; i < BURST_LEN; i++) {
		IMB_JOB *job = &batch->jobs[i];

		memset(job, 0, sizeof(*job));
		job->key_len_in_bytes = key_len;
		job->iv_len_in_bytes = 16;
		job->auth_tag_output_len_in_bytes = tag_len[hmac];
		job->cipher_mode = key_len == 0 ? IMB_CIPHER_NULL : IMB_CIPHER_CBC;
		job->hash_alg = hash_alg[hmac];
		job->cipher_direction = open ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
		job->chain_order = open ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
	}
	batch->shape = wanted;
}

/* Enters the packet with number `at`, see fill(). */
void culvert_mb_enter(struct culvert_mb_batch *batch, uint32_t at, const uint8_t *keys,
		      const uint8_t *mac, uint8_t *packet, uint8_t *tag, uint64_t lengths)
{
	fill(&batch->jobs[at], keys, mac, packet, tag, lengths);
}

/*
 * The two synchronous bursts are the library's fastest way for AES-CBC and HMAC: each keeps all
 * lanes of one function busy, and there is no scheduler between them. They check nothing before,
 * and answer with the number of jobs that completed.
 */

/* AES-CBC over n packets from the one at `from`. Returns n, or 0 if the library failed. */
uint32_t culvert_mb_cipher(IMB_MGR *mgr, struct culvert_mb_batch *batch, uint32_t from, uint32_t n,
			   uint32_t key_len, uint32_t open)
{
	const uint32_t done = IMB_SUBMIT_CIPHER_BURST_NOCHECK(
		mgr, &batch->jobs[from], n, IMB_CIPHER_CBC,
		open ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT, (IMB_KEY_SIZE_BYTES)key_len);

	return done == n ? n : culvert_mb_refused(mgr);
}

/* HMAC over the first n packets. Returns n, or 0 if the library failed. */
uint32_t culvert_mb_hash(IMB_MGR *mgr, struct culvert_mb_batch *batch, uint32_t n, uint32_t hmac)
{
	uint32_t i;

	if (IMB_SUBMIT_HASH_BURST_NOCHECK(mgr, batch->jobs, n, hash_alg[hmac]) != n)
		return culvert_mb_refused(mgr);
	/*
	 * One by one: a compiler that makes vectors of all of them gathers these on the stack by narrow
	 * stores, which wide loads wait for.
	 */
	for (i = 0; i < n; i++)
		if ((batch->jobs[i].status & ~IMB_STATUS_COMPLETED_CIPHER) !=
		    IMB_STATUS_COMPLETED_AUTH)
			return culvert_mb_refused(mgr);
	return n;
}

static uint32_t completed(IMB_JOB *const *jobs, uint32_t n)
{
	uint32_t i, done = 0;

	for (i = 0; i < n; i++)
		done += jobs[i]->status == IMB_STATUS_COMPLETED;
	return done;
}

/* ChaCha20-Poly1305 over n packets in place. Returns n, or 0 if the library failed. */
uint32_t culvert_mb_chacha(IMB_MGR *mgr, const struct culvert_mb_chacha *packets, uint32_t n,
			   uint32_t open)
{
	IMB_JOB *jobs[BURST_LEN];
	uint32_t i, got, done;

	if (IMB_GET_NEXT_BURST(mgr, n, jobs) != n)
		return culvert_mb_refused(mgr);
	for (i = 0; i < n; i++) {
		const struct culvert_mb_chacha *from = &packets[i];
		IMB_JOB *to = jobs[i];

		to->enc_keys = from->key;
		to->dec_keys = from->key;
		to->key_len_in_bytes = 32;
		to->src = from->text;
		to->dst = from->text;
		to->cipher_start_src_offset_in_bytes = 0;
		to->msg_len_to_cipher_in_bytes = from->text_len;
		to->hash_start_src_offset_in_bytes = 0;
		to->msg_len_to_hash_in_bytes = from->text_len;
		to->iv = from->nonce;
		to->iv_len_in_bytes = 12;
		to->auth_tag_output = from->tag;
		to->auth_tag_output_len_in_bytes = 16;
		to->u.CHACHA20_POLY1305.aad = from->aad;
		to->u.CHACHA20_POLY1305.aad_len_in_bytes = from->aad_len;
		to->cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
		to->hash_alg = IMB_AUTH_CHACHA20_POLY1305;
		to->cipher_direction = open ? IMB_DIR_DECRYPT : IMB_DIR_ENCRYPT;
		to->chain_order = open ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
	}
	got = IMB_SUBMIT_BURST_NOCHECK(mgr, n, jobs);
	done = completed(jobs, got);
	if (done != got)
		return culvert_mb_refused(mgr);
	while (done < n) {
		got = IMB_FLUSH_BURST(mgr, n - done, jobs);
		if (got == 0 || completed(jobs, got) != got)
			return culvert_mb_refused(mgr);
		done += got;
	}
	return done;
}
