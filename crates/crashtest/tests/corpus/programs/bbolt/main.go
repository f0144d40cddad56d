// A program under test and its checker: bbolt create|write|check|unsynced.
// Each transaction gives all keys the same new value.
package main

import (
	"bytes"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

const (
	keys         = 4
	transactions = 6
	valueBytes   = 3000
)

func orEnd(err error, verdict string) {
	if err != nil {
		fmt.Println(verdict, err)
		os.Exit(1)
	}
}

func commit(db *bolt.DB, number byte) {
	orEnd(db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("values"))
		for key := byte(0); key < keys && err == nil; key++ {
			err = bucket.Put([]byte{key}, bytes.Repeat([]byte{number}, valueBytes))
		}
		return err
	}), "WRONG_CONTENT")
}

// Ends the program unless all keys have the same value, which is at least the promised one.
func verify(db *bolt.DB, promised byte) {
	orEnd(db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		bucket := tx.Bucket([]byte("values"))
		newest := bucket.Get([]byte{0})[0]
		for key := byte(0); key < keys; key++ {
			if !bytes.Equal(bucket.Get([]byte{key}), bytes.Repeat([]byte{newest}, valueBytes)) {
				return fmt.Errorf("values differ")
			}
		}
		if newest < promised {
			fmt.Println("promised", promised, "found", newest)
			os.Exit(1)
		}
		return nil
	}), "WRONG_CONTENT")
}

func main() {
	task := os.Args[1]
	db, err := bolt.Open("store", 0o600, &bolt.Options{NoSync: task == "unsynced"})
	orEnd(err, "REFUSES_TO_OPEN")
	switch task {
	case "create":
		commit(db, 0)
	case "check":
		acknowledged, err := os.ReadFile(os.Getenv("IODYNO_ACKNOWLEDGED"))
		orEnd(err, "CHECKER_FAILED")
		promised := byte(0)
		for _, line := range bytes.Fields(acknowledged) {
			promised = line[0] - '0'
		}
		verify(db, promised)
		commit(db, transactions+1)
		verify(db, transactions+1)
	default:
		for number := byte(1); number <= transactions; number++ {
			commit(db, number)
			fmt.Println(number)
		}
	}
	orEnd(db.Close(), "WRONG_CONTENT")
}
