/*
 * An event device with two queues: one whose items any worker may take, and behind it one of a single consumer. Ports:
 * 0 puts, 1 up to the number of workers take and finish, the last one has what is finished. Software does such a
 * device's scheduling when it is told to.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eventdev.h>
#include <rte_lcore.h>
#include <rte_service.h>

#include "shim.h"

enum { WORK = 0, DONE = 1, DEPTH = 64, MOST = 1024 };

static int set_up_queues(uint8_t id, int is_atomic)
{
	struct rte_event_queue_conf work = {
		.schedule_type = is_atomic ? RTE_SCHED_TYPE_ATOMIC : RTE_SCHED_TYPE_ORDERED,
		.priority = RTE_EVENT_DEV_PRIORITY_NORMAL,
		.nb_atomic_flows = MOST,
		.nb_atomic_order_sequences = MOST,
	};
	struct rte_event_queue_conf done = { .event_queue_cfg = RTE_EVENT_QUEUE_CFG_SINGLE_LINK };
	int error = rte_event_queue_setup(id, WORK, &work);

	return error != 0 ? error : rte_event_queue_setup(id, DONE, &done);
}

static int set_up_ports(uint8_t id, uint8_t workers)
{
	struct rte_event_port_conf conf = {
		.new_event_threshold = MOST, .dequeue_depth = DEPTH, .enqueue_depth = DEPTH,
	};
	const uint8_t work = WORK, done = DONE;
	uint8_t port, last = (uint8_t)(workers + 1);
	int error = 0;

	for (port = 0; error == 0 && port <= last; port++) {
		conf.event_port_cfg = port == last ? RTE_EVENT_PORT_CFG_SINGLE_LINK : 0;
		error = rte_event_port_setup(id, port, &conf);
	}
	for (port = 1; error == 0 && port < last; port++)
		error = rte_event_port_link(id, port, &work, NULL, 1) == 1 ? 0 : -EIO;
	if (error == 0)
		error = rte_event_port_link(id, last, &done, NULL, 1) == 1 ? 0 : -EIO;
	return error;
}

/* Sets the device of this name up for so many workers and starts it. Its number, or a negative errno. */
int culvert_cd_events_open(const char *name, int is_atomic, uint8_t workers, uint32_t *service)
{
	struct rte_event_dev_config config = {
		.nb_events_limit = 4 * MOST, .nb_event_queues = 2, .nb_event_ports = (uint8_t)(workers + 2),
		.nb_event_queue_flows = MOST, .nb_event_port_dequeue_depth = DEPTH,
		.nb_event_port_enqueue_depth = DEPTH, .nb_single_link_event_port_queues = 1,
	};
	int id = rte_event_dev_get_dev_id(name);
	int error;

	if (id < 0)
		return -ENODEV;
	error = rte_event_dev_configure((uint8_t)id, &config);
	if (error == 0)
		error = set_up_queues((uint8_t)id, is_atomic);
	if (error == 0)
		error = set_up_ports((uint8_t)id, workers);
	if (error == 0)
		error = rte_event_dev_service_id_get((uint8_t)id, service);
	if (error == 0)
		error = rte_service_runstate_set(*service, 1);
	if (error == 0)
		error = rte_service_set_runstate_mapped_check(*service, 0);
	/* Who runs a service has to be known to the library. */
	if (error == 0 && rte_lcore_id() == LCORE_ID_ANY)
		error = rte_thread_register();
	return error != 0 ? error : rte_event_dev_start((uint8_t)id) != 0 ? -EIO : id;
}

void culvert_cd_events_close(uint8_t id)
{
	rte_event_dev_stop(id);
	rte_event_dev_close(id);
}

/* Some rounds of scheduling. */
void culvert_cd_events_schedule(uint32_t service)
{
	int round;

	for (round = 0; round < 8; round++)
		rte_service_run_iter_on_app_lcore(service, 1);
}

int culvert_cd_events_put(uint8_t id, int is_atomic, uint32_t flow, uint64_t item)
{
	struct rte_event event = {
		.flow_id = flow, .op = RTE_EVENT_OP_NEW, .queue_id = WORK, .event_type = RTE_EVENT_TYPE_CPU,
		.sched_type = is_atomic ? RTE_SCHED_TYPE_ATOMIC : RTE_SCHED_TYPE_ORDERED, .u64 = item,
	};

	return rte_event_enqueue_burst(id, 0, &event, 1) == 1;
}

/* At most so many, which are at most 64; two words each. */
uint16_t culvert_cd_events_take(uint8_t id, uint8_t port, uint64_t (*items)[2], uint16_t most)
{
	struct rte_event events[DEPTH];
	uint16_t i, count = rte_event_dequeue_burst(id, port, events, most < DEPTH ? most : DEPTH, 0);

	for (i = 0; i < count; i++) {
		items[i][0] = events[i].event;
		items[i][1] = events[i].u64;
	}
	return count;
}

/* Gives on what a port has taken, in the order in which it was taken. */
int culvert_cd_events_finish(uint8_t id, uint8_t port, const uint64_t *item)
{
	struct rte_event event = { .event = item[0], .u64 = item[1] };

	event.op = RTE_EVENT_OP_FORWARD;
	event.queue_id = DONE;
	return rte_event_enqueue_burst(id, port, &event, 1) == 1;
}
