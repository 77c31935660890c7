// One node of hashicorp/raft with raft-wal, which syncs each append, and a counter as its machine.
//
// Tuned: batches of up to 1,024 entries on the way in and to the peers, a machine that takes batches,
// no snapshot, no log lines.
package main

import (
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"time"

	"peers/lines"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

type counter struct{ applied uint64 }

func (c *counter) Apply(*raft.Log) any { c.applied++; return c.applied }

func (c *counter) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	for at := range logs {
		results[at] = c.Apply(logs[at])
	}
	return results
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (c *counter) Restore(from io.ReadCloser) error    { return from.Close() }

type nothing struct{}

func (nothing) Persist(sink raft.SnapshotSink) error { return sink.Close() }
func (nothing) Release()                             {}

type node struct {
	raft *raft.Raft
	wal  *wal.WAL
}

func (n node) Leader() string {
	_, id := n.raft.LeaderWithID()
	return string(id)
}

func (n node) Propose(body []byte) error { return n.raft.Apply(body, 10*time.Second).Error() }

func (n node) Close() {
	_ = n.raft.Shutdown().Error()
	_ = n.wal.Close()
}

func main() {
	config := lines.Read()
	folder := filepath.Join(config.DataDir, "wal")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		lines.Fail(err)
	}
	quiet := hclog.NewNullLogger()
	store, err := wal.Open(folder, wal.WithLogger(quiet))
	if err != nil {
		lines.Fail(err)
	}
	listen := config.Address(config.NodeID)
	address, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		lines.Fail(err)
	}
	transport, err := raft.NewTCPTransportWithConfig(listen, address, &raft.NetworkTransportConfig{
		MaxPool: 3, Timeout: 10 * time.Second, Logger: quiet,
	})
	if err != nil {
		lines.Fail(err)
	}
	settings := raft.DefaultConfig()
	settings.LocalID = raft.ServerID(config.NodeID)
	settings.Logger = quiet
	settings.BatchApplyCh = true
	settings.MaxAppendEntries = 1024
	settings.SnapshotThreshold = math.MaxUint64
	var servers []raft.Server
	for _, name := range config.Names() {
		servers = append(servers, raft.Server{
			ID: raft.ServerID(name), Address: raft.ServerAddress(config.Address(name)),
		})
	}
	snapshots := raft.NewInmemSnapshotStore()
	first := raft.Configuration{Servers: servers}
	if err := raft.BootstrapCluster(settings, store, store, snapshots, transport, first); err != nil {
		lines.Fail(err)
	}
	made, err := raft.NewRaft(settings, &counter{}, store, store, snapshots, transport)
	if err != nil {
		lines.Fail(err)
	}
	lines.Serve(config.NodeID, node{made, store})
}
