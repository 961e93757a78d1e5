/*
 * arguments.c - splits a command line into options and words. Each part of the program takes its
 * own options.
 */
#include "runtime/cli/cli.h"
#include "runtime/config/plugins.h"

#include <stdlib.h>
#include <string.h>

static bool is_part(const char *name)
{
	size_t i = 0;
	while (i < PART_COUNT && strcmp(part_names[i], name) != 0)
		i++;
	return i < PART_COUNT;
}

/* ---- Command lines --------------------------------------------------------- */

char *arguments_read(struct arguments *a, int argc, char **argv,
		     bool (*bare)(const void *ctx, const char *name), const void *ctx)
{
	bool ended = false;
	*a = (struct arguments){
		.option = must(calloc((size_t)argc + 1, sizeof(*a->option))),
		.word = must(calloc((size_t)argc + 1, sizeof(*a->word))),
	};
	for (int i = 0; i < argc; i++) {
		const char *arg = argv[i];
		if (ended || arg[0] != '-' || arg[1] == '\0') {
			a->word[a->words++] = arg;
		} else if (strcmp(arg, "--") == 0) {
			ended = true;
		} else if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
			a->help = true;
		} else if (strcmp(arg, "--help=all") == 0) {
			a->help = a->help_all = true;
		} else if (arg[1] != '-') {
			arguments_free(a);
			return sentence("%s: options begin with two dashes, as in --epochs=10",
					arg);
		} else {
			size_t n = strcspn(arg + 2, "=");
			char *name AUTOFREE = must(strndup(arg + 2, n));
			struct setting *s = &a->option[a->all++];
			s->name = must(strdup(name));
			bool next = i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0;
			if (arg[2 + n] == '=')
				s->value = arg + 2 + n + 1;
			else if (next && (!bare || !bare(ctx, name)))
				s->value = argv[++i]; /* a missing value is reported later */
			if (s->value && (is_part(s->name) || strcmp(s->name, "data-dir") == 0))
				plugins_name(s->value, NAMED_BY_USER);
		}
	}
	a->options = a->all;
	return NULL;
}

void arguments_free(struct arguments *a)
{
	for (size_t i = 0; i < a->all; i++)
		free((char *)(uintptr_t)a->option[i].name);
	free(a->option);
	free(a->word);
	*a = (struct arguments){.options = 0};
}

char *arguments_take(struct arguments *a, const struct option *table, void *fields)
{
	for (size_t i = 0; i < a->options;) {
		struct setting s = a->option[i];
		const struct option *o = option_find(table, s.name);
		if (!o) {
			i++;
			continue;
		}
		memmove(&a->option[i], &a->option[i + 1], (a->all - i - 1) * sizeof s);
		a->option[a->all - 1] = s;
		a->options--;
		TRY(option_set(o, fields, NULL, s.value));
	}
	return NULL;
}

bool arguments_took(const struct arguments *a, const char *name)
{
	size_t i = a->options;
	while (i < a->all && strcmp(a->option[i].name, name) != 0)
		i++;
	return i < a->all;
}

const char *arguments_value(const struct arguments *a, const char *name)
{
	return setting_value(a->option, a->options, name);
}

char *arguments_refuse(const struct arguments *a, const struct option *table)
{
	return a->options ? option_unknown("", a->option[0].name, table, "") : NULL;
}
