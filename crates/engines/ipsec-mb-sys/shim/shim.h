/* What the parts of the shim share, and what Rust mirrors in src/lib.rs. */
#ifndef CULVERT_SHIM_H
#define CULVERT_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <intel-ipsec-mb.h>

/* Most packets of one burst. */
enum { BURST_LEN = 64 };

_Static_assert(BURST_LEN <= IMB_MAX_BURST_SIZE, "the library takes a burst whole");

/* Keyed hashes, and what else makes a tag. */
enum { HMAC_SHA1 = 0, HMAC_SHA256 = 1, HMAC_SHA384 = 2, HMAC_SHA512 = 3, MAC_XCBC = 4, MAC_CMAC = 5, MAC_CCM = 6 };

/* Ciphers of culvert_mb_jobs, all of them AES. */
enum { CIPHER_NULL = 0, CIPHER_CBC = 1, CIPHER_CTR = 2, CIPHER_CCM = 3 };

/* One packet of a burst of ChaCha20-Poly1305. */
struct culvert_mb_chacha {
	const uint8_t *key;
	const uint8_t *nonce;	/* 12 bytes */
	const uint8_t *aad;
	uint8_t *text;
	uint8_t *tag;		/* out: the computed tag */
	uint32_t text_len;
	uint32_t aad_len;
};

_Static_assert(sizeof(struct culvert_mb_chacha) == 48, "mirrored in src/lib.rs");

/* One packet of culvert_mb_jobs; lengths and places in bytes, places from the packet's start. */
struct culvert_mb_packet {
	const uint8_t *keys;	/* AES's schedule, aligned to 16; for decryption where AES-CBC decrypts */
	const uint8_t *iv;	/* AES-CBC: 16; AES-CTR: 16, its first counter block; AES-CCM: 11 */
	const uint8_t *mac;	/* HMAC's inner state; a key of culvert_mb_mac_keys; AES-CCM's additional data */
	uint8_t *packet;
	uint8_t *tag;		/* out: the computed tag, 32 bytes of room */
	uint32_t text;
	uint32_t text_len;	/* 0 only without a cipher or with AES-CCM */
	uint32_t hash_len;	/* what is hashed, from the packet's start; not with AES-CCM */
	uint32_t aad_len;	/* AES-CCM: of the additional data; HMAC: where the outer state is behind the inner */
	uint8_t cipher;
	uint8_t key_len;
	uint8_t hash;
	uint8_t tag_len;
	uint32_t open;
};

_Static_assert(sizeof(struct culvert_mb_packet) == 64, "mirrored in src/lib.rs");

/* AES-GMAC's functions by key size, as below; 12-byte iv. */
struct culvert_mb_gmac_calls {
	void (*init[3])(const struct gcm_key_data *keys, struct gcm_context_data *ctx,
			const uint8_t *iv, uint64_t iv_len);
	void (*update[3])(const struct gcm_key_data *keys, struct gcm_context_data *ctx,
			  const uint8_t *in, uint64_t len);
	void (*finish[3])(const struct gcm_key_data *keys, struct gcm_context_data *ctx,
			  uint8_t *tag, uint64_t tag_len);
};

/* Room for a burst of AES-CBC and HMAC. Zeros are a valid one. */
struct culvert_mb_batch {
	IMB_JOB jobs[BURST_LEN];
	uint32_t shape;		/* what the constant parts of the jobs are filled for */
};

/* One of AES-GCM's functions over a whole text; 12-byte iv, in place is allowed. */
typedef void (*culvert_mb_gcm_call)(const struct gcm_key_data *keys, struct gcm_context_data *ctx,
				    uint8_t *out, const uint8_t *in, uint64_t len,
				    const uint8_t *iv, const uint8_t *aad, uint64_t aad_len,
				    uint8_t *tag, uint64_t tag_len);

/* All of them, by key size: 128, 192, 256 bits. */
struct culvert_mb_gcm_calls {
	culvert_mb_gcm_call seal[3];
	culvert_mb_gcm_call open[3];
};

uint32_t culvert_mb_refused(IMB_MGR *mgr);
void culvert_mb_shape(struct culvert_mb_batch *batch, uint32_t key_len, uint32_t hmac,
		      uint32_t open);
uint32_t culvert_mb_cipher(IMB_MGR *mgr, struct culvert_mb_batch *batch, uint32_t from, uint32_t n,
			   uint32_t key_len, uint32_t open);
uint32_t culvert_mb_hash(IMB_MGR *mgr, struct culvert_mb_batch *batch, uint32_t n, uint32_t hmac);
uint32_t culvert_mb_chacha(IMB_MGR *mgr, const struct culvert_mb_chacha *packets, uint32_t n,
			   uint32_t open);

/*
 * Enters a packet for AES-CBC and HMAC; the rest of the job is as culvert_mb_shape left it. Lengths
 * are at most 65535: where the text starts in bits 0 to 15 of `lengths`, with the IV before it; its
 * length in bits 16 to 31; how many bytes behind it HMAC covers in bits 32 to 47; where HMAC's outer
 * hash state lies behind the inner one in bits 48 to 63.
 */
static inline void fill(IMB_JOB *job, const uint8_t *keys, const uint8_t *mac, uint8_t *packet,
			uint8_t *tag, uint64_t lengths)
{
	const uint64_t start = lengths & 0xffff;
	const uint64_t len = lengths >> 16 & 0xffff;

	job->enc_keys = keys;
	job->dec_keys = keys;
	job->src = packet;
	job->dst = packet + start;
	job->cipher_start_src_offset_in_bytes = start;
	job->msg_len_to_cipher_in_bytes = len;
	job->msg_len_to_hash_in_bytes = start + len + (lengths >> 32 & 0xffff);
	/* Without a cipher nobody reads it, and it may lie before the packet. */
	job->iv = (const uint8_t *)((uintptr_t)packet + start - 16);
	job->auth_tag_output = tag;
	job->u.HMAC._hashed_auth_key_xor_ipad = mac;
	job->u.HMAC._hashed_auth_key_xor_opad = mac + (lengths >> 48);
	job->status = 0;
}

#endif
