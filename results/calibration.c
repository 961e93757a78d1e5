/*
 * calibration.c - what a simulation needs: its platform's file, and what work costs.
 */
#include "results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *find_platform(const struct config *c, struct simulation *s)
{
	const char *name = c->run.sim_platform;
	if (strchr(name, '/') || strstr(name, ".xml")) {
		if (access(name, R_OK) != 0)
			return sentence("--sim.platform=%s: %m; give a name of mvbench list "
					"platforms, or a file of SimGrid's XML",
					name);
		s->platform_file = must(strdup(name));
		return NULL;
	}
	char *inside = sentence("sim/platforms/%s.xml", name);
	s->platform_file = installed_path(inside);
	free(inside);
	if (!s->platform_file)
		return sentence("--sim.platform=%s: there is none of that name; mvbench list "
				"platforms shows them",
				name);
	return NULL;
}

char *simulation_find(const struct config *c, struct simulation *s)
{
	double step = NAN;
	*s = (struct simulation){.rows = (double)c->run.batch, .update_s = NAN};
	char *wrong = time_check("sim.step-time", c->run.sim_step_time, &step);
	if (!wrong)
		wrong = time_check("sim.update-time", c->run.sim_update_time, &s->update_s);
	if (!wrong)
		wrong = find_platform(c, s);
	if (wrong)
		return wrong;
	for (int i = 0; i < STEP_BINS; i++)
		s->step_s[i] = step;
	return NULL;
}

void simulation_fini(struct simulation *s)
{
	free(s->platform_file);
}
