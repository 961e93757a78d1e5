/*
 * fuzz.h - shared declarations of the readers. fuzz.c has the list of readers, and those of plain
 * files; databases.c has those of databases, platforms.c that of platforms.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

struct target {
	const char *name;
	void (*read)(const uint8_t *data, size_t size);
	/* Changes an input in place, and returns its new size; NULL: libFuzzer changes inputs. */
	size_t (*mutate)(uint8_t *data, size_t size, size_t most, unsigned seed);
};

void read_calibration(const uint8_t *data, size_t size);
void read_table(const uint8_t *data, size_t size);
void read_import(const uint8_t *data, size_t size);
void read_report(const uint8_t *data, size_t size);
void read_platform(const uint8_t *data, size_t size);
size_t mutate_platform(uint8_t *data, size_t size, size_t most, unsigned seed);

extern char *folder; /* temporary, of this process */
/* Writes folder/NAME; its path, heap. */
char *write_file(const char *name, const uint8_t *data, size_t size);
/* Frees the message of a refused input; NULL: the input was read. */
void refused(char *sentence);

#endif
