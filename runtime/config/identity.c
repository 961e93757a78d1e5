/*
 * identity.c - a configuration as text: its options one after the other, the words that give it
 * again, and the hash that identifies its cell.
 */
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "workloads/net.h"

#include <string.h>

const struct plugin *config_plugin(const struct config *c, enum part part, void **opts)
{
	const struct plugin *const has[PART_COUNT] = {&c->strategy->plugin, &c->workload->plugin,
						      &c->optimizer->plugin, &c->codec->plugin};
	*opts = (void *const[PART_COUNT]){c->strategy_opts, c->workload_opts, c->optimizer_opts,
					  c->codec_opts}[part];
	return has[part];
}

bool config_next(struct config_option *at)
{
	void *opts;
	if (at->option) {
		at->option++;
	} else {
		at->option = run_options;
		at->fields = at->config;
		at->part = "run";
	}
	while (!at->option || !at->option->name) {
		if (at->next == PART_COUNT)
			return false;
		at->part = part_names[at->next];
		const struct plugin *p = config_plugin(at->config, (enum part)at->next++, &opts);
		at->owner = p->name;
		at->option = p->options;
		at->fields = opts;
	}
	const struct option *o = at->option;
	at->value = at->number;
	if (o->type == OPT_STRING || o->type == OPT_CHOICE)
		at->value = *(const char *const *)((const char *)at->fields + o->offset);
	else
		option_text(o, at->fields, at->number, sizeof at->number);
	return true;
}

bool option_decides(const struct option *o, const char *value)
{
	return !o->incidental && (o->core.always || strcmp(value, o->def) != 0);
}

static bool is_budgeted(const struct config_option *at)
{
	return has_budget(&at->config->run) && !at->owner &&
	       strcmp(at->option->name, "epochs") == 0;
}

bool option_follows(const struct config_option *at)
{
	bool shared = at->config->run.global_batch > 0 && !at->owner &&
		      strcmp(at->option->name, "batch") == 0;
	return shared || is_budgeted(at);
}

/* Raised when an option gets another default: cells with the old one must not pass for new ones. A
 * test holds the defaults to a list. */
enum { IDENTITY = 1 };

void config_hash(const struct config *c, char hex[17])
{
	uint64_t h = HASH_START ^ IDENTITY;
	for (struct config_option at = {.config = c}; config_next(&at);) {
		const char *const piece[] = {at.part, ".", at.option->name, "=", at.value, "\n"};
		for (size_t i = 0; i < sizeof piece / sizeof *piece; i++)
			if (option_decides(at.option, at.value) && !is_budgeted(&at))
				h = hash_of(h, piece[i], strlen(piece[i]));
	}
	snprintf(hex, 17, "%016llx", (unsigned long long)h);
}

const char *option_column(const struct option *o, char column[COLUMN_ROOM])
{
	snprintf(column, COLUMN_ROOM, "%s", o->name);
	for (char *c = column; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	return column;
}

char **config_words(const struct config *c)
{
	char **words = NULL;
	size_t n = 0;
	for (struct config_option at = {.config = c}; config_next(&at);) {
		if (option_follows(&at))
			continue;
		char *name AUTOFREE = option_full_name(at.owner, at.option), *file AUTOFREE = NULL;
		enum part chosen = option_chooses(at.option);
		void *opts;
		if (chosen < PART_COUNT)
			file = plugin_typed(config_plugin(c, chosen, &opts));
		APPEND(words, n, sentence("--%s=%s", name, file ? file : at.value));
	}
	APPEND(words, n, NULL);
	return words;
}

void free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}
