// The third judge: histories of ours, judged by porcupine.
//
//	judge [-model queue|register] [-seconds 60] < HISTORIES > VERDICTS
//
// A history a line, {"name", "history": [operation ...], "replicas": {node: {queue: [[offset,
// value] ...]}}}; a verdict a line, {"name", "verdict", "operations", "because"}. Exit 0 when every
// line could be read, whatever the verdicts; 2 otherwise.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	model := flag.String("model", "queue", "queue (needs final logs) or register")
	seconds := flag.Float64("seconds", 60, "patience for one history")
	flag.Parse()
	if *model != "queue" && *model != "register" {
		fail(fmt.Errorf("-model is queue or register, not %q", *model))
	}
	patience := time.Duration(*seconds * float64(time.Second))
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var given history
		if err := in.Decode(&given); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fail(fmt.Errorf("this is no history: %w", err))
		}
		if err := out.Encode(judge(given, *model, patience)); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
