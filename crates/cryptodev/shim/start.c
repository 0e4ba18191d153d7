/* Starts DPDK's environment, once in a process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_version.h>

#include "shim.h"

/* 0, or an errno. The library keeps pointers into its arguments, so these stay. */
int culvert_cd_start(int count, const char *const *arguments)
{
	char **kept = calloc((size_t)count + 1, sizeof(*kept));
	int i;

	if (kept == NULL)
		return ENOMEM;
	for (i = 0; i < count; i++) {
		kept[i] = strdup(arguments[i]);
		if (kept[i] == NULL)
			return ENOMEM;
	}
	if (rte_eal_init(count, kept) < 0)
		return rte_errno != 0 ? rte_errno : EINVAL;
	return 0;
}

const char *culvert_cd_version(void) { return rte_version(); }
