/*
 * report_pictures.c - the figures of `mvbench plot` as parts of a page: drawn as SVG, kept until
 * the section of their workload, with ids made unique.
 */
#include "plots/report.h"

#include <stdlib.h>
#include <string.h>

struct picture {
	char *workload, *name, *summary, *svg;
};

static void take_picture(void *ctx, const struct figure *f, const char *workload, const char *file)
{
	struct pictures *ps = ctx;
	char *svg = text_read(file);
	if (svg)
		APPEND(ps->picture, ps->n,
		       (struct picture){.workload = must(strdup(workload)),
					.name = must(strdup(f->name)),
					.summary = must(strdup(f->summary)),
					.svg = svg});
}

int pictures_draw(struct store *s, const struct figures *fs, struct pictures *ps)
{
	const struct figure **all AUTOFREE = must(calloc(fs->n + 1, sizeof(*all)));
	struct drawing d = {.store = s,
			    .style = fs->folder,
			    .format = "svg",
			    .title = "",
			    .take = take_picture,
			    .ctx = ps};
	for (size_t i = 0; i < fs->n; i++)
		all[i] = &fs->figure[i];
	return draw_figures(&d, all, fs->n, false);
}

void pictures_free(struct pictures *ps)
{
	for (size_t i = 0; i < ps->n; i++) {
		free(ps->picture[i].workload);
		free(ps->picture[i].name);
		free(ps->picture[i].summary);
		free(ps->picture[i].svg);
	}
	free(ps->picture);
}

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* The end of an element to leave out, or s: browsers would show gnuplot's name of the drawing as a
 * hint everywhere on it. */
static const char *skip_element(const char *s, const char *name)
{
	char open[16], close[16];
	snprintf(open, sizeof(open), "<%s>", name);
	snprintf(close, sizeof(close), "</%s>", name);
	const char *end = starts(s, open) ? strstr(s, close) : NULL;
	return end ? end + strlen(close) : s;
}

/* Ids within a drawing, and references to them, get the drawing's number, because a page has
 * several drawings. */
static void put_tag(struct report *p, const char *s, const char *end)
{
	static const char *const before[] = {" id=\"", " id='", "href=\"#", "href='#", "url(#"};
	while (s < end) {
		size_t k = 0, n = sizeof(before) / sizeof(*before);
		while (k < n && !starts(s, before[k]))
			k++;
		if (k < n) {
			fprintf(p->f, "%sp%d-", before[k], p->pictures);
			s += strlen(before[k]);
		} else {
			fputc(*s++, p->f);
		}
	}
}

static void put_picture(struct report *p, const char *svg, const char *label)
{
	const char *s = strstr(svg, "<svg");
	if (!s)
		return;
	p->pictures++;
	page_print(p, "<svg role=\"img\" aria-label=\"%s\"", label);
	s += 4;
	while (*s) {
		const char *more = skip_element(skip_element(s, "title"), "desc");
		const char *end = *s == '<' || s[-1] == 'g' ? strchr(s, '>') : NULL;
		if (more != s) {
			s = more;
		} else if (end) {
			put_tag(p, s, end + 1);
			s = end + 1;
		} else {
			fputc(*s++, p->f);
		}
	}
	fputc('\n', p->f);
}

void pictures_put(struct report *p, const struct pictures *ps, const char *workload)
{
	bool any = false;
	for (size_t i = 0; i < ps->n; i++) {
		const struct picture *at = &ps->picture[i];
		if (strcmp(at->workload, workload) != 0)
			continue;
		fputs(any ? "" : "<h3>Figures</h3>\n<div class=\"figures\">\n", p->f);
		any = true;
		fputs("<figure>", p->f);
		put_picture(p, at->svg, at->summary);
		page_print(p, "<figcaption>%s <code>%s</code></figcaption></figure>\n", at->summary,
			   at->name);
	}
	fputs(any ? "</div>\n" : "", p->f);
}
