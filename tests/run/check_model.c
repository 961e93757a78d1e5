/*
 * check_model.c - tables and the assignment of mini-batches in every order of three workers
 * (tests/model): the scenarios that take a second or two hold, and each planted fault is found.
 */
#include "tests/fixture.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

static char out[1 << 15];

CASE("model", .limit = 120);

TEST(model_scenarios_hold_in_every_order)
{
	int status = command_output("tests/model/model briefly 2>&1", out, sizeof out);
	ck_assert_msg(status == 0, "%s", out);
	ck_assert_msg(strstr(out, "failed_worker") && !strstr(out, "wrong"), "%s", out);
}

/* Files of tests/model/faults, the scenario that finds each, and its message. */
static const struct {
	const char *fault, *scenario, *says;
} faults[] = {
	{"lost_update", "deal", "has been counted 2 times"},
	{"no_lock", "asgd", "a race"},
	{"no_wakeup", "bsp_long", "wait for each other for ever"},
	{"polling", "bsp", "a state comes back"},
	{"early_round", "bsp_long", "before step"},
	{"twice_returned", "returned", "has been counted 2 times"},
	{"not_returned", "returned", "has been counted 0 times"},
	{"last_ends", "rest", "has been counted 0 times"},
	{"unfinished", "rest_undrawn", "more than 4000 steps"},
	{"silent_leave", "leave_backup", "wait for each other for ever"},
};

TEST(planted_fault_is_found, COUNT(faults))
{
	char *command AUTOFREE =
		sentence("tests/model/faults/%s %s 2>&1", faults[_i].fault, faults[_i].scenario);
	int status = command_output(command, out, sizeof out);
	ck_assert_msg(status == 1 && strstr(out, faults[_i].says),
		      "%s: status %d, without \"%s\": %s", command, status, faults[_i].says, out);
}
