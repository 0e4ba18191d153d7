/* What lies behind an operation in its own memory. */
#ifndef CULVERT_CD_PLACES_H
#define CULVERT_CD_PLACES_H

#include <stdint.h>

#include <rte_crypto.h>

/* A driver may read additional data in whole blocks; AES-CCM's has room in front of it. */
enum { IV_ROOM = 16, AAD_ROOM = 64, CCM_AAD_AT = 18 };

/* Behind them: where the packet belongs. */
struct note {
	uint32_t serial;	/* the queue's */
	uint32_t index;
	uint32_t body_len;
	uint16_t front_len;
	uint16_t tail_len;
	uint16_t icv_len;
};

#define IV_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
#define AAD_AT (IV_AT + IV_ROOM)
#define NOTE_AT (AAD_AT + AAD_ROOM)
#define PRIVATE_LEN (IV_ROOM + AAD_ROOM + sizeof(struct note))

#endif
