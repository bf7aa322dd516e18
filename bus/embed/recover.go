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

	"github.com/askance-dev/askance/bus"

	"github.com/nats-io/nats-server/v2/server"
)

// Recover restarts the server if its store has stopped writing and there is room
// on the disk again; it reports whether it did. NATS writes nothing more after a
// write error until it is restarted. Connections come back, and what was
// acknowledged is there. After an error the server is down: end the process.
func (s *Server) Recover(ctx context.Context) (bool, error) {
	h, ok := errors.AsType[*bus.HealthError](s.Health())
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

// stop ends the server. The index that it writes for a stream whose store broke
// counts the record that could not be written: it is removed, and the next start
// counts the records that are there.
func (s *Server) stop() error {
	broken, _ := errors.AsType[*bus.HealthError](s.Health())
	s.now().Shutdown()
	s.now().WaitForShutdown()
	if broken == nil {
		return nil
	}
	var err error
	for _, stream := range broken.Broken {
		found, gerr := filepath.Glob(filepath.Join(s.opts.StoreDir, "jetstream", "*", "streams", stream, "msgs", "index.db"))
		err = errors.Join(err, gerr)
		for _, path := range found {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil {
		return unwritable(s.opts.StoreDir, err)
	}
	return nil
}

// hasRoom reports whether as much as the head-room can be written, wherever the
// store's own limit is. It is really written: quotas do not show in what is free.
func (s *Server) hasRoom() bool {
	need := s.Room().HeadRoom(0)
	if free, known := freeDisk(s.opts.StoreDir); known && free < need {
		return false
	}
	f, err := os.Create(probeFile(s.opts.StoreDir))
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(f.Name()) }() // else the next start removes it
	block := make([]byte, 1<<20)
	_, _ = rand.Read(block) // a disk that compresses must not take it for nothing
	for left := need; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close()) == nil
}

// probeFile is written to find out whether there is room.
func probeFile(dir string) string { return filepath.Join(dir, ".askance-probe") }

// now is the server as it runs; a restart replaces it.
func (s *Server) now() *server.Server { return s.running.Load() }

// InProcessConn implements nats.InProcessConnProvider across restarts.
func (s *Server) InProcessConn() (net.Conn, error) { return s.now().InProcessConn() }

// Health is nil while everything works, and else a *HealthError. A disk that
// filled up under a stream shows here and nowhere else: the server then leaves
// writes unanswered until it is restarted: see [Server.Recover].
func (s *Server) Health() error {
	h := s.now().Healthz(&server.HealthzOptions{Details: true})
	if h.StatusCode == http.StatusOK {
		return nil
	}
	e := &bus.HealthError{}
	for _, p := range h.Errors {
		e.Problems = append(e.Problems, p.Error)
		if p.Type == server.HealthzErrorStream && strings.Contains(p.Error, "write error") {
			e.Broken = append(e.Broken, p.Stream)
		}
	}
	return e
}
