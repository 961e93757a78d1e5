/*
 * words.c - text that users type: lists of settings, and the command that makes a configuration
 * again.
 */
#include "results/db/db.h"
#include "runtime/config/config.h"
#include "runtime/config/plugins.h"
#include "workloads/net.h"

#include <stdlib.h>
#include <string.h>

/* ---- Settings ---------------------------------------------------------------- */

void settings_add(struct settings *all, char *name, char *value)
{
	APPEND(all->setting, all->n, (struct setting){name, value});
}

void settings_add_word(struct settings *all, const char *word)
{
	const char *name = word + 2, *is = strchr(name, '=');
	settings_add(all, must(strndup(name, (size_t)(is - name))), must(strdup(is + 1)));
}

void settings_add_config(struct settings *all, const struct config *c)
{
	char **words AUTOWORDS = config_words(c);
	for (size_t i = 0; words[i]; i++)
		settings_add_word(all, words[i]);
}

void settings_give(struct settings *all, const struct setting *given, size_t n)
{
	for (size_t i = 0; i < n; i++)
		settings_add(all, must(strdup(given[i].name)),
			     given[i].value ? must(strdup(given[i].value)) : NULL);
}

void settings_free(struct settings *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free((char *)(uintptr_t)all->setting[i].name);
		free((char *)(uintptr_t)all->setting[i].value);
	}
	free(all->setting);
	*all = (struct settings){.setting = NULL};
}

/* ---- Commands ------------------------------------------------------------------ */

static bool is_of(const char *word, const char *const *name)
{
	for (; *name; name++)
		if (strncmp(word + 2, *name, strlen(*name)) == 0 && word[2 + strlen(*name)] == '=')
			return true;
	return false;
}

static bool is_among(const char *word, char *const *list)
{
	while (*list && strcmp(word, *list) != 0)
		list++;
	return *list;
}

char *command_of(const struct config *c, bool cell)
{
	/* spoken: always in the command, because readers need not know these defaults; silent:
	 * never */
	static const char *const spoken[] = {"workload", "strategy", "workers", "seed", NULL};
	static const char *const spoken_of_cell[] = {"workload", "strategy", NULL};
	static const char *const silent_of_cell[] = {"seed", "db", "label", NULL};
	char *workload AUTOFREE = plugin_typed(&c->workload->plugin),
		       *strategy AUTOFREE = plugin_typed(&c->strategy->plugin);
	const struct setting names[] = {{"workload", workload}, {"strategy", strategy}};
	struct config plain ENDS_WITH(config_fini) = {.strings = NULL};
	char *wrong = config_init_recorded(&plain, names, 2);
	struct text t;
	FILE *f = text_open(&t);
	CHECK(!wrong, "a configuration is refused by its own names: %s", wrong);
	char **word AUTOWORDS = config_words(c), **usual AUTOWORDS = config_words(&plain);
	fputs("mvbench run", f);
	for (size_t i = 0; word[i]; i++) {
		if (cell && is_of(word[i], silent_of_cell))
			continue;
		if (is_among(word[i], usual) && !is_of(word[i], cell ? spoken_of_cell : spoken))
			continue;
		fputc(' ', f);
		word_put(f, word[i]);
	}
	return text_close(&t);
}
