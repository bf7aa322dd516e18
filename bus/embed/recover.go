package embed

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/journal"

	"github.com/nats-io/nats-server/v2/server"
)

// Recover restarts the server if its store stopped writing and the disk has room again. It
// reports whether it did so. After a write error, NATS writes nothing until a restart.
// Acknowledged records survive and clients reconnect. After an error the server is down:
// end the process.
func (s *Server) Recover(ctx context.Context) (bool, error) {
	h, ok := errors.AsType[*journal.HealthError](s.Health())
	if !ok || len(h.Broken) == 0 || !s.hasRoom() {
		return false, nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return false, nil
	}
	if err := s.stop(); err != nil {
		return false, err
	}
	return true, s.start(ctx, s.opts.Clone())
}

// stop stops the server and removes the indexes of broken streams, which count a record
// that was not written.
func (s *Server) stop() error {
	broken, _ := errors.AsType[*journal.HealthError](s.Health())
	s.runningServer().Shutdown()
	s.runningServer().WaitForShutdown()
	if broken == nil {
		return nil
	}
	var indexes []string
	for _, stream := range broken.Broken {
		indexes = append(indexes, filepath.Join("*", "streams", stream, "msgs", "index.db"))
	}
	return removeInStore(s.opts.StoreDir, indexes...)
}

// hasRoom reports whether the reserved space can be written. It really writes that much,
// because the free space does not reveal quotas.
func (s *Server) hasRoom() bool {
	need := s.Room().HeadRoom(0)
	if free, known := FreeDisk(s.opts.StoreDir); known && free < need {
		return false
	}
	probe := probeFile(s.opts.StoreDir)
	_ = os.Remove(probe)                                                   // a killed process may have left it
	f, err := os.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // follows no link
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(f.Name()) }() // if this fails, the next start removes it
	block := make([]byte, 1<<20)
	_, _ = rand.Read(block) // incompressible
	for left := need; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close()) == nil
}

func probeFile(dir string) string { return filepath.Join(dir, ".askance-probe") }

// runningServer returns the running server, which a restart replaces.
func (s *Server) runningServer() *server.Server { return s.running.Load() }

// InProcessConn implements nats.InProcessConnProvider across restarts.
func (s *Server) InProcessConn() (net.Conn, error) { return s.runningServer().InProcessConn() }

// Messages returns how many messages the server received from clients and delivered to
// them since it started, including JetStream requests and replies.
func (s *Server) Messages() (in, out int64, err error) {
	v, err := s.runningServer().Varz(nil)
	if err != nil {
		return 0, 0, err
	}
	return v.InMsgs, v.OutMsgs, nil
}

// Health returns nil or a *HealthError. Nothing else reveals that a disk filled up under a
// stream, whose writes then stay unanswered: see [Server.Recover].
func (s *Server) Health() error {
	h := s.checkHealth()
	if h.StatusCode == http.StatusOK {
		return nil
	}
	e := &journal.HealthError{}
	for _, p := range h.Errors {
		e.Problems = append(e.Problems, p.Error)
		if p.Type == server.HealthzErrorStream && strings.Contains(p.Error, "write error") {
			e.Broken = append(e.Broken, p.Stream)
			if strings.Contains(p.Error, "write error: sync ") { // the system call that failed
				e.Unsynced = append(e.Unsynced, p.Stream)
			}
		}
	}
	return e
}

// checkHealth repeats a check that ended before it looked at the streams: it gives up on the
// listeners after a millisecond, which passes unused on a busy machine.
func (s *Server) checkHealth() *server.HealthStatus {
	for tries := 1; ; tries++ {
		r := s.runningServer()
		h := r.Healthz(&server.HealthzOptions{Details: true})
		if len(h.Errors) == 0 || h.Errors[0].Type != server.HealthzErrorConn || tries == 20 || !r.ReadyForConnections(time.Second) {
			return h
		}
	}
}
