// A program under test and its checker: rocksdb create|write|check|unsynced.
// Each transaction gives all keys the same new value; the last ones are on the way to a table when it ends.
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 4, TRANSACTIONS = 6, VALUE_BYTES = 3000 };

static void or_end(char *error, const char *verdict) {
  if (error == NULL) return;
  printf("%s %s\n", verdict, error);
  exit(1);
}

static void commit(rocksdb_t *db, char number, int sync) {
  rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(options, sync);
  rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
  char value[VALUE_BYTES], *error = NULL;
  memset(value, number, sizeof value);
  for (char key = 0; key < KEYS; key++) rocksdb_writebatch_put(batch, &key, 1, value, sizeof value);
  rocksdb_write(db, options, batch, &error);
  or_end(error, "WRONG_CONTENT");
}

// Ends the program unless all keys have the same value, which is at least the promised one.
static void verify(rocksdb_t *db, char promised) {
  rocksdb_readoptions_t *options = rocksdb_readoptions_create();
  char newest = 0;
  for (char key = 0; key < KEYS; key++) {
    size_t length;
    char *error = NULL, *value = rocksdb_get(db, options, &key, 1, &length, &error);
    or_end(error, "WRONG_CONTENT");
    if (value == NULL || length != VALUE_BYTES) or_end("a key has no value", "WRONG_CONTENT");
    if (key == 0) newest = value[0];
    for (size_t at = 0; at < length; at++)
      if (value[at] != newest) or_end("values differ", "WRONG_CONTENT");
  }
  if (newest >= promised) return;
  printf("promised %d, found %d\n", promised, newest);
  exit(1);
}

int main(int count, char **words) {
  (void)count;
  const char *task = words[1];
  rocksdb_options_t *options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, strcmp(task, "create") == 0);
  char *error = NULL;
  rocksdb_t *db = rocksdb_open(options, "store", &error);
  or_end(error, "REFUSES_TO_OPEN");
  if (strcmp(task, "create") == 0) {
    commit(db, 0, 1);
  } else if (strcmp(task, "check") == 0) {
    FILE *acknowledged = fopen(getenv("IODYNO_ACKNOWLEDGED"), "r");
    int promised = 0;
    while (fscanf(acknowledged, "%d", &promised) == 1) continue;
    verify(db, promised);
    commit(db, TRANSACTIONS + 1, 1);
    verify(db, TRANSACTIONS + 1);
  } else {
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    for (char number = 1; number <= TRANSACTIONS; number++) {
      commit(db, number, strcmp(task, "unsynced") != 0);
      printf("%d\n", number);
      fflush(stdout);
      if (number == TRANSACTIONS / 2) rocksdb_flush(db, flush, &error);
      or_end(error, "WRONG_CONTENT");
    }
  }
  rocksdb_close(db);
}
