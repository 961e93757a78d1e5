/*
 * export_tensorboard.c - a run as a TensorBoard event file: FOLDER/RUN/events.out...
 *
 * The file is a sequence of TFRecords (length, its checksum, data, its checksum;
 * tensorflow/core/lib/io/record_writer.h), each with one protobuf of type Event
 * (tensorflow/core/util/event.proto):
 *
 *      Event    1: wall_time (double), 2: step (varint), 3: file_version (string), 5: Summary
 *      Summary  1: Value, repeated
 *      Value    1: tag (string), 2: simple_value (float)
 *
 * File names depend only on the run: exporting again writes the same files.
 */
#include "results/share/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Records --------------------------------------------------------------- */

uint32_t tfrecord_crc(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint32_t crc = 0xffffffff;
	while (n--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + 0xa282ead8;
}

struct message {
	unsigned char byte[4096];
	size_t n;
};

static void put(struct message *m, const void *bytes, size_t n)
{
	CHECK(m->n + n <= sizeof(m->byte), "a message of more than %zu bytes", sizeof(m->byte));
	memcpy(m->byte + m->n, bytes, n);
	m->n += n;
}

/* Little-endian on every machine. */
static void put_little(struct message *m, uint64_t x, int bytes)
{
	for (int i = 0; i < bytes; i++)
		put(m, &(unsigned char){(unsigned char)(x >> 8 * i)}, 1);
}

static void put_varint(struct message *m, uint64_t x)
{
	for (; x >= 0x80; x >>= 7)
		put(m, &(unsigned char){(unsigned char)(x | 0x80)}, 1);
	put(m, &(unsigned char){(unsigned char)x}, 1);
}

enum wire { VARINT = 0, DOUBLE = 1, BYTES = 2, FLOAT = 5 };

static void put_field(struct message *m, unsigned number, enum wire wire)
{
	put_varint(m, number << 3 | wire);
}

static void put_bytes(struct message *m, unsigned number, const void *bytes, size_t n)
{
	put_field(m, number, BYTES);
	put_varint(m, n);
	put(m, bytes, n);
}

static void put_double(struct message *m, unsigned number, double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof(bits));
	put_field(m, number, DOUBLE);
	put_little(m, bits, 8);
}

static void put_float(struct message *m, unsigned number, float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof(bits));
	put_field(m, number, FLOAT);
	put_little(m, bits, 4);
}

static void write_record(FILE *f, const struct message *m)
{
	struct message head = {.n = 0}, tail = {.n = 0};
	put_little(&head, m->n, 8);
	put_little(&head, tfrecord_crc(head.byte, 8), 4);
	put_little(&tail, tfrecord_crc(m->byte, m->n), 4);
	fwrite(head.byte, 1, head.n, f);
	fwrite(m->byte, 1, m->n, f);
	fwrite(tail.byte, 1, tail.n, f);
}

/* ---- Events ---------------------------------------------------------------- */

/* TensorBoard groups tags by the part before the '/'. */
static const char *heading_of(const char *column)
{
	static const char *const heading[][2] = {
		{"accuracy", "accuracy"}, {"loss", "loss"},        {"_s", "time"},
		{"seconds", "time"},      {"consensus", "models"}, {"", "pushes"},
	};
	size_t i = 0;
	while (!strstr(column, heading[i][0]))
		i++;
	if (strncmp(column, "staleness", 9) == 0 || strncmp(column, "bytes", 5) == 0)
		i = sizeof heading / sizeof *heading - 1;
	return heading[i][1];
}

static void put_value(struct message *summary, const char *heading, const char *name, double x)
{
	struct message value = {.n = 0};
	char *tag AUTOFREE = sentence("%s/%s", heading, name);
	put_bytes(&value, 1, tag, strlen(tag));
	put_float(&value, 2, (float)x);
	put_bytes(summary, 1, value.byte, value.n);
}

static void write_event(FILE *f, double time, int64_t epoch, const struct message *summary)
{
	struct message event = {.n = 0};
	put_double(&event, 1, time);
	put_field(&event, 2, VARINT);
	put_varint(&event, (uint64_t)epoch);
	put_bytes(&event, 5, summary->byte, summary->n);
	write_record(f, &event);
}

static void write_events(FILE *f, double began, struct sql *epochs, struct sql *values)
{
	static const char version[] = "brain.Event:2";
	struct message event = {.n = 0};
	put_double(&event, 1, began);
	put_bytes(&event, 3, version, strlen(version));
	write_record(f, &event);
	while (sql_next(epochs)) {
		struct message summary = {.n = 0};
		for (int i = EPOCH_FIGURES; i < sql_columns(epochs); i++) {
			const char *name = sql_name(epochs, i);
			if (isfinite(sql_real(epochs, i)))
				put_value(&summary, heading_of(name), name, sql_real(epochs, i));
		}
		write_event(f, sql_real(epochs, EPOCH_TIME), sql_int(epochs, EPOCH_NUMBER),
			    &summary);
	}
	while (sql_next(values)) {
		struct message summary = {.n = 0};
		put_value(&summary, "reported", sql_text(values, VALUE_NAME),
			  sql_real(values, VALUE_VALUE));
		write_event(f, sql_real(values, VALUE_TIME), sql_int(values, VALUE_EPOCH),
			    &summary);
	}
}

char *tensorboard_run(const char *folder, struct store *s, struct sql *row, struct sql *epochs,
		      struct sql *values)
{
	const char *host = sql_null(row, RUN_HOST) ? "unknown" : sql_text(row, RUN_HOST);
	char *name AUTOFREE = export_name(sql_text(row, RUN_NAME));
	char *where AUTOFREE = export_name(host), *own AUTOFREE = sentence("%s/%s", folder, name);
	double began = sql_real(row, RUN_STARTED);
	char *path AUTOFREE = sentence("%s/events.out.tfevents.%010.0f.%s", own, began, where);
	struct output out;
	(void)s;
	TRY(export_folder(own));
	TRY(output_open(&out, "", path));
	write_events(out.f, began, epochs, values);
	return output_close(&out, NULL);
}
