/* What the parts of the shim share, and what Rust mirrors in src/sys/raw.rs. */
#ifndef CULVERT_CD_SHIM_H
#define CULVERT_CD_SHIM_H

#include <stdint.h>

struct rte_mempool;

/* Most packets of one call. */
enum { BURST_LEN = 64 };

/* What a transform is made of. */
enum { KIND_AEAD = 0, KIND_CHAIN = 1, KIND_AUTH = 2 };

/* Combined modes. */
enum { AEAD_GCM = 0, AEAD_CCM = 1, AEAD_CHACHA = 2 };

/* Ciphers. */
enum { CIPHER_AES_CBC = 0, CIPHER_AES_CTR = 1, CIPHER_3DES_CBC = 2, CIPHER_DES_CBC = 3 };

/* Keyed hashes and MACs. */
enum {
	AUTH_MD5 = 0, AUTH_SHA1 = 1, AUTH_SHA256 = 2, AUTH_SHA384 = 3, AUTH_SHA512 = 4, AUTH_XCBC = 5,
	AUTH_CMAC = 6, AUTH_GMAC = 7
};

/* An algorithm suite as DPDK's transforms say it; lengths in bytes. */
struct culvert_cd_transform {
	uint8_t kind;
	uint8_t cipher;		/* of a combined mode: that mode */
	uint8_t auth;
	uint8_t cipher_key_len;
	uint8_t auth_key_len;
	uint8_t iv_len;		/* as the cipher wants it, salt and counter included; AUTH_GMAC: of the MAC */
	uint8_t icv_len;
	uint8_t aad_len;	/* of a combined mode */
};

/* What is known of a device. */
struct culvert_cd_facts {
	const char *name;
	const char *driver;
	uint32_t most_pairs;
	uint32_t most_sessions;	/* 0: no limit */
	uint32_t has_chains;
};

/*
 * One packet. In the device's memory lie, without gaps: front, body, tail, ICV. A combined mode and a cipher work on
 * the body from text on, a MAC on all that is in front of the ICV.
 */
struct culvert_cd_job {
	void *session;
	const uint8_t *body;
	const uint8_t *icv;	/* what it should be; NULL: it is to be made */
	uint32_t body_len;
	uint32_t text;		/* where the text begins in the body */
	uint32_t index;		/* comes back with the packet */
	uint8_t kind;
	uint8_t is_ccm;
	uint8_t icv_len;
	uint8_t front_len;
	uint8_t tail_len;
	uint8_t aad_len;
	uint8_t front[12];
	uint8_t tail[4];
	uint8_t aad[12];
	uint8_t iv[16];
};

_Static_assert(sizeof(struct culvert_cd_job) == 88, "mirrored in src/sys/raw.rs");

/* What became of one. */
enum { STATUS_DONE = 0, STATUS_WRONG_ICV = 1, STATUS_FAILED = 2 };

/* One that came back; its memory is the caller's to read until culvert_cd_release. */
struct culvert_cd_done {
	void *op;
	const uint8_t *body;
	const uint8_t *icv;
	uint32_t body_len;
	uint32_t icv_len;
	uint32_t index;
	uint32_t status;
};

_Static_assert(sizeof(struct culvert_cd_done) == 40, "mirrored in src/sys/raw.rs");

/* A queue pair and its memory. */
struct culvert_cd_queue {
	struct rte_mempool *ops;
	struct rte_mempool *packets;
	uint32_t outside;	/* operations that the device has */
	uint32_t serial;	/* of this queue, also in its operations */
	uint16_t pair;
	uint8_t device;
};

#endif
