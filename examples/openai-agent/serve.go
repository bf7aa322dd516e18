package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/auth"
)

// serve serves the agent to this machine until ctx ends.
func serve(ctx context.Context, h *house, runner *agent.Runner, address string, up func(url string)) error {
	surfaces, err := surfaces(runner)
	if err != nil {
		return err
	}
	gw, err := gateway.New(gateway.Config{
		Spaces: []*gateway.Space{h.space()}, Auth: auth.Loopback{Name: you, Space: space}, Surfaces: surfaces, Log: h.log,
	})
	if err != nil {
		return err
	}
	defer gw.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if ip, ok := l.Addr().(*net.TCPAddr); !ok || !ip.IP.IsLoopback() {
		return errors.Join(errors.New("this address is not on loopback, and everyone who reaches it could act as you: listen on 127.0.0.1"), l.Close())
	}
	server := gateway.HTTP(gw, h.log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	up("http://" + l.Addr().String())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	gw.Close() // streams end
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(end)
	if failure := <-failed; !errors.Is(failure, http.ErrServerClosed) {
		return failure
	}
	return err
}
