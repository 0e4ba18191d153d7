/*
 * A queue pair: packets are copied into memory that the device reaches, and read there when they come back. One
 * thread at a time has a queue, which the caller sees to. The caller also keeps lengths within what
 * culvert_cd_queue_new was given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_crypto.h>
#include <rte_cryptodev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "shim.h"
#include "places.h"

/* Memory for so many packets of so many bytes at most, or NULL. The serial number keeps names apart. */
struct culvert_cd_queue *culvert_cd_queue_new(uint8_t device, uint16_t pair, uint32_t serial, uint32_t packets,
					      uint16_t most_len)
{
	int node = rte_cryptodev_socket_id(device);
	struct rte_cryptodev_info info;
	struct culvert_cd_queue *q;
	char name[RTE_MEMZONE_NAMESIZE];
	uint32_t room;

	/* Some devices want room around a packet. */
	rte_cryptodev_info_get(device, &info);
	room = RTE_PKTMBUF_HEADROOM + most_len + info.min_mbuf_tailroom_req;
	if (info.min_mbuf_headroom_req > RTE_PKTMBUF_HEADROOM || room > UINT16_MAX)
		return NULL;
	q = calloc(1, sizeof(*q));
	if (q == NULL)
		return NULL;
	q->device = device;
	q->pair = pair;
	q->serial = serial;
	snprintf(name, sizeof(name), "culvert-ops-%u", serial);
	q->ops = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, packets, 0, PRIVATE_LEN, node);
	snprintf(name, sizeof(name), "culvert-buf-%u", serial);
	q->packets = rte_pktmbuf_pool_create(name, packets, 0, 0, (uint16_t)room, node);
	if (q->ops == NULL || q->packets == NULL) {
		rte_mempool_free(q->ops);
		rte_mempool_free(q->packets);
		free(q);
		return NULL;
	}
	return q;
}

/* Frees what the device does not have any more; memory that it may still write to stays. */
void culvert_cd_queue_free(struct culvert_cd_queue *q)
{
	if (q->outside == 0) {
		rte_mempool_free(q->ops);
		rte_mempool_free(q->packets);
	}
	free(q);
}

static struct note *note_of(struct rte_crypto_op *op)
{
	return rte_crypto_op_ctod_offset(op, struct note *, NOTE_AT);
}

static void fill(const struct culvert_cd_queue *q, struct rte_crypto_op *op, struct rte_mbuf *m,
		 const struct culvert_cd_job *job)
{
	struct rte_crypto_sym_op *sym = op->sym;
	uint32_t icv_at = job->front_len + job->body_len + job->tail_len;
	uint32_t text_at = job->front_len + job->text;
	uint8_t *to = rte_pktmbuf_mtod(m, uint8_t *);
	struct note *note = note_of(op);

	*note = (struct note){
		.serial = q->serial, .index = job->index, .body_len = job->body_len, .front_len = job->front_len,
		.tail_len = job->tail_len, .icv_len = job->icv_len,
	};
	memcpy(to, job->front, job->front_len);
	memcpy(to + job->front_len, job->body, job->body_len);
	memcpy(to + job->front_len + job->body_len, job->tail, job->tail_len);
	if (job->icv != NULL)
		memcpy(to + icv_at, job->icv, job->icv_len);
	m->data_len = (uint16_t)(icv_at + job->icv_len);
	m->pkt_len = m->data_len;

	memcpy(rte_crypto_op_ctod_offset(op, uint8_t *, IV_AT), job->iv, sizeof(job->iv));
	rte_crypto_op_attach_sym_session(op, job->session);
	sym->m_src = m;
	sym->m_dst = NULL;
	if (job->kind == KIND_AEAD) {
		uint8_t *aad = rte_crypto_op_ctod_offset(op, uint8_t *, AAD_AT);

		memset(aad, 0, AAD_ROOM);
		memcpy(aad + (job->is_ccm ? CCM_AAD_AT : 0), job->aad, job->aad_len);
		sym->aead.aad.data = aad;
		sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, AAD_AT);
		sym->aead.data.offset = text_at;
		sym->aead.data.length = job->body_len - job->text;
		sym->aead.digest.data = to + icv_at;
		sym->aead.digest.phys_addr = rte_pktmbuf_iova_offset(m, icv_at);
		return;
	}
	sym->cipher.data.offset = text_at;
	sym->cipher.data.length = job->kind == KIND_CHAIN ? job->body_len - job->text : 0;
	sym->auth.data.offset = 0;
	sym->auth.data.length = icv_at;
	sym->auth.digest.data = to + icv_at;
	sym->auth.digest.phys_addr = rte_pktmbuf_iova_offset(m, icv_at);
}

/* How many packets, from the front, the device has taken; at most BURST_LEN are given. */
uint16_t culvert_cd_enqueue(struct culvert_cd_queue *q, const struct culvert_cd_job *jobs, uint16_t count)
{
	struct rte_crypto_op *ops[BURST_LEN];
	struct rte_mbuf *packets[BURST_LEN];
	uint16_t i, taken;

	if (count == 0 || rte_crypto_op_bulk_alloc(q->ops, RTE_CRYPTO_OP_TYPE_SYMMETRIC, ops, count) != count)
		return 0;
	if (rte_pktmbuf_alloc_bulk(q->packets, packets, count) != 0) {
		rte_mempool_put_bulk(q->ops, (void **)ops, count);
		return 0;
	}
	for (i = 0; i < count; i++)
		fill(q, ops[i], packets[i], &jobs[i]);
	taken = rte_cryptodev_enqueue_burst(q->device, q->pair, ops, count);
	for (i = taken; i < count; i++) {
		rte_pktmbuf_free(packets[i]);
		rte_crypto_op_free(ops[i]);
	}
	q->outside += taken;
	return taken;
}

static uint32_t status_of(const struct rte_crypto_op *op)
{
	switch (op->status) {
	case RTE_CRYPTO_OP_STATUS_SUCCESS:
		return STATUS_DONE;
	case RTE_CRYPTO_OP_STATUS_AUTH_FAILED:
		return STATUS_WRONG_ICV;
	default:
		return STATUS_FAILED;
	}
}

/* Packets that came back, at most so many, which are at most BURST_LEN. */
uint16_t culvert_cd_dequeue(struct culvert_cd_queue *q, struct culvert_cd_done *done, uint16_t most)
{
	struct rte_crypto_op *ops[BURST_LEN];
	uint16_t i, found, count = 0;

	found = rte_cryptodev_dequeue_burst(q->device, q->pair, ops, most);
	for (i = 0; i < found; i++) {
		const struct note *note = note_of(ops[i]);
		uint8_t *at = rte_pktmbuf_mtod(ops[i]->sym->m_src, uint8_t *);

		/* Of a queue that had this pair before, and gave this packet up: its number is another one's now. */
		if (note->serial != q->serial)
			continue;
		done[count] = (struct culvert_cd_done){
			.op = ops[i],
			.body = at + note->front_len,
			.icv = at + note->front_len + note->body_len + note->tail_len,
			.body_len = note->body_len,
			.icv_len = note->icv_len,
			.index = note->index,
			.status = status_of(ops[i]),
		};
		/* Some drivers decrypt before they know whether the ICV is right. */
		if (done[count].status != STATUS_DONE)
			memset(at, 0, rte_pktmbuf_data_len(ops[i]->sym->m_src));
		count++;
	}
	q->outside -= count;
	return count;
}

/* Takes back the memory of packets that came back. */
void culvert_cd_release(const struct culvert_cd_done *done, uint16_t count)
{
	uint16_t i;

	for (i = 0; i < count; i++) {
		struct rte_crypto_op *op = done[i].op;

		rte_pktmbuf_free(op->sym->m_src);
		rte_crypto_op_free(op);
	}
}
