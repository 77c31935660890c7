// Package lines speaks with `scripts/bench`: a JSON line for each command and answer.
//
//	{"do": "leader", "seconds": 20}                                  {"leader": "n1"}
//	{"do": "load", "window": 64, "body_size": 1024, "seconds": 5}    {"entries": …, "p50_ms": …}
//	{"do": "cpu"}                                                    {"cpu_seconds": 1.5}
//	{"do": "stop"}                                                   the program ends
package lines

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"
)

// Config is the program's first argument.
type Config struct {
	NodeID  string            `json:"node_id"`
	Peers   map[string][2]any `json:"peers"`
	DataDir string            `json:"data_dir"`
}

// Address of a peer: host:port.
func (c Config) Address(name string) string {
	peer := c.Peers[name]
	return fmt.Sprintf("%v:%v", peer[0], peer[1])
}

// Names of the peers in one order on every node.
func (c Config) Names() []string {
	names := make([]string, 0, len(c.Peers))
	for name := range c.Peers {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Node is what each library brings.
type Node interface {
	// Leader names who leads; "" while nobody does.
	Leader() string
	// Propose returns when the command is applied here, or says that it was not.
	Propose(body []byte) error
	Close()
}

type command struct {
	Do       string  `json:"do"`
	Seconds  float64 `json:"seconds"`
	Window   int     `json:"window"`
	BodySize int     `json:"body_size"`
}

const bodies = 4096 // different random bodies: no repetition to profit from

// Read the program's argument.
func Read() Config {
	var given struct {
		Config Config `json:"config"`
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		Fail(err)
	}
	return given.Config
}

// Fail ends the program with its reason.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Serve lines until "stop" or the end of the input.
func Serve(name string, node Node) {
	defer node.Close()
	out := json.NewEncoder(os.Stdout)
	must(out.Encode(map[string]any{"started": name}))
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var asked command
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			Fail(err)
		}
		var answer map[string]any
		switch asked.Do {
		case "leader":
			answer = leader(node, asked)
		case "load":
			answer = load(node, asked)
		case "cpu":
			answer = map[string]any{"cpu_seconds": cpu()}
		default:
			return
		}
		must(out.Encode(answer))
	}
}

func must(err error) {
	if err != nil {
		Fail(err)
	}
}

func leader(node Node, asked command) map[string]any {
	end := time.Now().Add(time.Duration(asked.Seconds * float64(time.Second)))
	for time.Now().Before(end) {
		if name := node.Leader(); name != "" {
			return map[string]any{"leader": name}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return map[string]any{"error": "nobody leads"}
}

// load keeps `window` commands in flight: so many goroutines, each with one at a time.
func load(node Node, asked command) map[string]any {
	block := make([]byte, bodies*asked.BodySize)
	if _, err := rand.Read(block); err != nil {
		Fail(err)
	}
	found := make([][]time.Duration, asked.Window)
	failed := make([]error, asked.Window)
	begun := time.Now()
	end := begun.Add(time.Duration(asked.Seconds * float64(time.Second)))
	var all sync.WaitGroup
	for worker := range asked.Window {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := worker; time.Now().Before(end); number += asked.Window {
				at := number % bodies * asked.BodySize
				started := time.Now()
				if err := node.Propose(block[at : at+asked.BodySize]); err != nil {
					failed[worker] = err
					return
				}
				found[worker] = append(found[worker], time.Since(started))
			}
		}()
	}
	all.Wait()
	seconds := time.Since(begun).Seconds()
	var latencies []time.Duration
	for worker, some := range found {
		if failed[worker] != nil {
			return map[string]any{"error": failed[worker].Error()}
		}
		latencies = append(latencies, some...)
	}
	sort.Slice(latencies, func(a, b int) bool { return latencies[a] < latencies[b] })
	part := func(share float64) float64 {
		at := int(share * float64(len(latencies)))
		return float64(latencies[min(at, len(latencies)-1)].Microseconds()) / 1e3
	}
	return map[string]any{
		"entries":            len(latencies),
		"entries_per_second": float64(len(latencies)) / seconds,
		"p50_ms":             part(0.5),
		"p99_ms":             part(0.99),
	}
}

func cpu() float64 {
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}
