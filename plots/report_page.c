/*
 * report_page.c - parts of a report page, and the figures of `mvbench plot` in it: drawn as SVG,
 * and kept until the section of their workload. Text from the database goes through text_xml.
 */
#include "plots/report.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ---------------------------------------------------------------- */

void page_print(struct report *p, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			fputc(*fmt, p->f);
			continue;
		}
		fmt++;
		if (*fmt == 's')
			text_xml(p->f, va_arg(args, const char *));
		else if (*fmt == 'd')
			fprintf(p->f, "%d", va_arg(args, int));
		else
			fputc('%', p->f);
	}
	va_end(args);
}

/* ---- Figures ------------------------------------------------------------- */

struct picture {
	const struct figure *figure;
	char *workload, *svg;
};

static void take_picture(void *ctx, const struct figure *f, const char *workload, const char *file)
{
	struct pictures *ps = ctx;
	char *svg = text_read(file);
	if (svg)
		APPEND(ps->picture, ps->n, (struct picture){f, must(strdup(workload)), svg});
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
		free(ps->picture[i].svg);
	}
	free(ps->picture);
}

/* Writes an SVG file as the source of an image. */
static void put_source(FILE *f, const char *svg)
{
	fputs("data:image/svg+xml,", f);
	for (; *svg; svg++)
		if (isalnum((unsigned char)*svg) || strchr(" !()*+,-./:;=_", *svg))
			fputc(*svg, f);
		else
			fprintf(f, "%%%02X", (unsigned char)*svg);
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
		page_print(p, "<figure><img alt=\"%s\" src=\"", at->figure->summary);
		put_source(p->f, at->svg);
		page_print(p, "\">\n<figcaption>%s <code>%s</code></figcaption></figure>\n",
			   at->figure->summary, at->figure->name);
	}
	fputs(any ? "</div>\n" : "", p->f);
}
