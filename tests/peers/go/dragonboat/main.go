// One node of dragonboat 3 with its own log store, which syncs, and a counter as its machine.
//
// A follower passes proposals on to the leader by itself, so both can be measured.
package main

import (
	"errors"
	"io"
	"path/filepath"
	"time"

	"peers/lines"

	"github.com/lni/dragonboat/v3"
	"github.com/lni/dragonboat/v3/client"
	"github.com/lni/dragonboat/v3/config"
	"github.com/lni/dragonboat/v3/logger"
	"github.com/lni/dragonboat/v3/statemachine"
)

const (
	group   = 1
	rtt     = 10 // ms; elections take 10 to 20 of them
	timeout = time.Second // then it is asked again, and its latency counts from the first time
)

type counter struct{ applied uint64 }

func (c *counter) Update([]byte) (statemachine.Result, error) {
	c.applied++
	return statemachine.Result{Value: c.applied}, nil
}
func (c *counter) Lookup(any) (any, error) { return c.applied, nil }
func (c *counter) SaveSnapshot(io.Writer, statemachine.ISnapshotFileCollection, <-chan struct{}) error {
	return nil
}
func (c *counter) RecoverFromSnapshot(io.Reader, []statemachine.SnapshotFile, <-chan struct{}) error {
	return nil
}
func (c *counter) Close() error { return nil }

type node struct {
	host    *dragonboat.NodeHost
	session *client.Session
	names   []string
}

func (n node) Leader() string {
	id, known, err := n.host.GetLeaderID(group)
	if err != nil || !known {
		return ""
	}
	return n.names[id-1]
}

func (n node) Propose(body []byte) error {
	for {
		asked, err := n.host.Propose(n.session, body, timeout)
		if errors.Is(err, dragonboat.ErrSystemBusy) {
			time.Sleep(100 * time.Microsecond) // its queue is full
			continue
		}
		if err != nil {
			return err
		}
		result := <-asked.ResultC()
		done, lost := result.Completed(), result.Dropped() || result.Timeout()
		asked.Release()
		if lost { // a follower passes it on once, and full queues on the way drop it
			time.Sleep(time.Millisecond)
			continue
		}
		if !done {
			return errors.New("a proposal was refused")
		}
		return nil
	}
}

func (n node) Close() { n.host.Stop() }

func main() {
	given := lines.Read()
	for _, name := range []string{"raft", "rsm", "transport", "grpc", "dragonboat", "logdb", "raftpb", "config", "settings", "order", "fileutil", "utils"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	members := map[uint64]dragonboat.Target{}
	names := given.Names()
	var own uint64
	for at, name := range names {
		members[uint64(at+1)] = given.Address(name)
		if name == given.NodeID {
			own = uint64(at + 1)
		}
	}
	host, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		NodeHostDir:    filepath.Join(given.DataDir, "host"),
		WALDir:         filepath.Join(given.DataDir, "wal"),
		RTTMillisecond: rtt,
		RaftAddress:    given.Address(given.NodeID),
	})
	if err != nil {
		lines.Fail(err)
	}
	made := func(uint64, uint64) statemachine.IStateMachine { return &counter{} }
	err = host.StartCluster(members, false, made, config.Config{
		NodeID: own, ClusterID: group, ElectionRTT: 20, HeartbeatRTT: 2, CheckQuorum: true,
	})
	if err != nil {
		lines.Fail(err)
	}
	lines.Serve(given.NodeID, node{host, host.GetNoOPSession(group), names})
}
