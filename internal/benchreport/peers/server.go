package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a process of a peer with its own folder.
type server struct {
	dir string
	cmd *exec.Cmd
	as  *syscall.Credential // the user that runs it; nil for the current one
}

// newServer makes the folder. If this process is root, another user runs the server, because
// PostgreSQL refuses to run as root.
func newServer(name string) (*server, error) {
	dir, err := os.MkdirTemp("", "askance-peer-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if os.Getuid() != 0 || name == "" {
		return s, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uerr, gerr, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s, nil
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	return c
}

// start starts the server and waits until ready reports success.
func (s *server) start(ctx context.Context, ready func(context.Context) error, name string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.cmd = s.command(name, args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for {
		if err = ready(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s is not ready: %w: %s", name, err, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its folder.
func (s *server) stop() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // both servers then end quickly
		_ = s.cmd.Wait()                         // how it ended does not matter
	}
	return os.RemoveAll(s.dir)
}

// treeTime returns the processor time of a process, its living children, and those that it
// has waited for; 0 for no process.
func treeTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	total := time.Duration(0)
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name comes before
		f := strings.Fields(rest)
		if len(f) < 15 || id != pid && f[1] != strconv.Itoa(pid) {
			continue
		}
		for _, ticks := range f[11:15] { // user and system time, then those of children
			n, _ := strconv.ParseInt(ticks, 10, 64)
			total += time.Duration(n) * 10 * time.Millisecond // a tick is 1/100 s on Linux
		}
	}
	return total
}
