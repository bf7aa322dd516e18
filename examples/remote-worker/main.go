// Command remote-worker runs the tool "refund" for an askance engine on another
// machine: a worker in about 20 lines.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/executor"
)

func refund(_ context.Context, t executor.Task) (executor.Output, error) {
	var in struct {
		Order string `json:"order"`
		Cents int64  `json:"cents"`
	}
	if err := t.Decode(&in); err != nil {
		return executor.Output{}, err // the model reads it and can correct the call
	}
	t.Progressf("refunding %d cents of order %s", in.Cents, in.Order)
	// A real bank gets t.IdempotencyKey, so that a repeated attempt pays once.
	return executor.Textf("refunded %d cents of order %s", in.Cents, in.Order), nil
}

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "where askance serve listens")
	key := flag.String("key", "data/engine.pub", "public key file of the engine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx, *url, *key); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, url, key string) error {
	keys, err := keyfile.LoadPublic(key)
	if err != nil {
		return err
	}
	nc, err := bus.Connect(ctx, url, bus.ConnectOptions{Principal: "refunds-1"})
	if err != nil {
		return err
	}
	defer nc.Close()
	transport, err := bus.NewWorker(nc, "default", "refund", "refunds-1", nil)
	if err != nil {
		return err
	}
	w, err := executor.NewWorker(transport, "refund", refund, keys, executor.WithName("refunds-1"))
	if err != nil {
		return err
	}
	return w.Run(ctx) // until ctx ends, then drains
}
