/*
 * The library's best calls in loops as short as they can be, over ESP packets of one key: what an
 * engine is compared with. Only lengths are checked, by the caller.
 *
 * A packet is SPI and sequence number, IV, text, ICV. Nothing is wiped when an ICV is wrong.
 */
#include <emmintrin.h>
#include <string.h>

#include "shim.h"

/* Bytes of SPI and sequence number. */
enum { HEADER_LEN = 8 };

/* A packet. */
struct culvert_mb_span {
	uint8_t *start;
	size_t len;
};

/* A key; all lengths in bytes. */
struct culvert_mb_bare {
	const uint8_t *keys;	/* AES-GCM's and ChaCha20's; AES-CBC's for encryption */
	const uint8_t *dec;	/* AES-CBC's for decryption */
	const uint8_t *mac;	/* HMAC's inner hash state */
	uint32_t salt;		/* as it lies in memory */
	uint32_t key_len;	/* AES-CBC: 0 for none */
	uint32_t hmac;
	uint32_t iv_len;
	uint32_t tag_len;
	uint32_t outer_at;	/* HMAC's outer hash state behind the inner one */
};

static inline uint64_t difference(const uint8_t *a, const uint8_t *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x ^ y;
}

/* Whether two tags are equal; they have 8 bytes or more. */
static inline int same(const uint8_t *a, const uint8_t *b, size_t len)
{
	uint64_t sum = difference(a + len - 8, b + len - 8);
	size_t i;

	for (i = 0; i + 8 < len; i += 8)
		sum |= difference(a + i, b + i);
	return sum == 0;
}

/* Salt and IV; one store as wide as the library's load, which would else have to wait. */
static inline void fill_nonce(uint8_t *nonce, uint32_t salt, const uint8_t *iv)
{
	uint64_t counter;

	memcpy(&counter, iv, sizeof(counter));
	_mm_storeu_si128((__m128i *)nonce,
			 _mm_set_epi64x((int64_t)(counter >> 32), (int64_t)(counter << 32 | salt)));
}

uint32_t culvert_mb_bare_gcm(culvert_mb_gcm_call call, const struct culvert_mb_bare *key,
			     struct gcm_context_data *ctx, const struct culvert_mb_span *packets,
			     uint32_t n, uint32_t open)
{
	uint8_t nonce[16], tag[16];
	uint32_t i, done = 0;

	for (i = 0; i < n; i++) {
		uint8_t *packet = packets[i].start;
		uint8_t *text = packet + HEADER_LEN + key->iv_len;
		uint8_t *icv = packet + packets[i].len - key->tag_len;

		fill_nonce(nonce, key->salt, packet + HEADER_LEN);
		call((const void *)key->keys, ctx, text, text, icv - text, nonce, packet,
		     HEADER_LEN, open ? tag : icv, key->tag_len);
		done += !open || same(tag, icv, key->tag_len);
	}
	return done;
}

uint32_t culvert_mb_bare_chacha(IMB_MGR *mgr, const struct culvert_mb_bare *key,
				const struct culvert_mb_span *packets, uint32_t n, uint32_t open)
{
	struct culvert_mb_chacha burst[BURST_LEN];
	uint8_t tags[BURST_LEN][16], nonces[BURST_LEN][16];
	uint32_t i, done = 0;

	if (n == 0)
		return 0;
	for (i = 0; i < n; i++) {
		struct culvert_mb_chacha *to = &burst[i];
		uint8_t *packet = packets[i].start;
		uint8_t *icv = packet + packets[i].len - key->tag_len;

		fill_nonce(nonces[i], key->salt, packet + HEADER_LEN);
		to->key = key->keys;
		to->nonce = nonces[i];
		to->aad = packet;
		to->text = packet + HEADER_LEN + key->iv_len;
		to->tag = open ? tags[i] : icv;
		to->text_len = icv - to->text;
		to->aad_len = HEADER_LEN;
	}
	if (culvert_mb_chacha(mgr, burst, n, open) != n)
		return 0;
	for (i = 0; i < n; i++)
		done += !open || same(tags[i], packets[i].start + packets[i].len - key->tag_len,
				      key->tag_len);
	return done;
}

uint32_t culvert_mb_bare_hmac(IMB_MGR *mgr, struct culvert_mb_batch *batch,
			      const struct culvert_mb_bare *key,
			      const struct culvert_mb_span *packets, uint32_t n, uint32_t open)
{
	const uint64_t start = HEADER_LEN + key->iv_len;
	uint8_t tags[BURST_LEN][32];
	uint32_t i, done = 0;

	if (n == 0)
		return 0;
	culvert_mb_shape(batch, key->key_len, key->hmac, open);
	for (i = 0; i < n; i++) {
		uint8_t *packet = packets[i].start;
		const uint64_t icv_at = packets[i].len - key->tag_len;

		fill(&batch->jobs[i], open ? key->dec : key->keys, key->mac, packet,
		     open ? tags[i] : packet + icv_at,
		     start | (icv_at - start) << 16 | (uint64_t)key->outer_at << 48);
	}
	if (!open && key->key_len != 0 &&
	    culvert_mb_cipher(mgr, batch, 0, n, key->key_len, open) != n)
		return 0;
	if (culvert_mb_hash(mgr, batch, n, key->hmac) != n)
		return 0;
	if (!open)
		return n;
	if (key->key_len != 0 && culvert_mb_cipher(mgr, batch, 0, n, key->key_len, open) != n)
		return 0;
	for (i = 0; i < n; i++)
		done += same(tags[i], packets[i].start + packets[i].len - key->tag_len,
			     key->tag_len);
	return done;
}
