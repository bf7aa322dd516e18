package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/internal/strictjson"
)

// WorkerTools are the tools of the demo's worker process.
var WorkerTools = []string{"refund", "restart_service"}

const step = 150 * time.Millisecond

// Call is one attempt, as askance worker passes it to a program.
type Call struct {
	Tool           string // ASKANCE_TOOL
	IdempotencyKey string // ASKANCE_IDEMPOTENCY_KEY
	Workspace      string
	Input          io.Reader // standard input
	Output         io.Writer // standard output: the result
	Progress       io.Writer // standard error: a line each
}

// RunTool is the program behind the demo's worker: it runs one call of one of WorkerTools.
func RunTool(ctx context.Context, c Call) error {
	switch c.Tool {
	case "refund":
		return refund(ctx, c)
	case "restart_service":
		return restart(ctx, c)
	}
	return fmt.Errorf("the demo's worker has no tool %q", c.Tool)
}

func (c Call) steps(ctx context.Context, lines ...string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(c.Progress, l); err != nil {
			return err
		}
		if err := replay.Sleep(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (c Call) decode(v any) error {
	b, err := io.ReadAll(io.LimitReader(c.Input, strictjson.DefaultMaxBytes+1))
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(b, v)
}

// Ledger is where refunds are booked, in the workspace.
const Ledger = "ledger.jsonl"

// Booking is a line of the ledger.
type Booking struct {
	Key     string `json:"idempotency_key"`
	Order   string `json:"order_id"`
	Charge  string `json:"charge_id"`
	Cents   int64  `json:"amount_cents"`
	Money   string `json:"currency"`
	Reason  string `json:"reason"`
	Receipt string `json:"receipt"`
}

// refund books a line in the ledger, once for each idempotency key: this makes it an
// idempotent tool.
func refund(ctx context.Context, c Call) error {
	var args struct {
		Order  string `json:"order_id"`
		Charge string `json:"charge_id"`
		Cents  int64  `json:"amount_cents"`
		Money  string `json:"currency"`
		Reason string `json:"reason"`
	}
	if err := c.decode(&args); err != nil {
		return err
	}
	if c.IdempotencyKey == "" {
		return errors.New("there is no idempotency key, and without one no money is moved")
	}
	if err := c.steps(ctx, "looking up "+args.Order); err != nil {
		return err
	}
	path := filepath.Join(c.Workspace, Ledger)
	booked, err := ReadLedger(path)
	if err != nil {
		return err
	}
	for _, b := range booked {
		if b.Key == c.IdempotencyKey {
			_, err := fmt.Fprintf(c.Output, "already refunded, receipt %s", b.Receipt)
			return err
		}
	}
	b := Booking{c.IdempotencyKey, args.Order, args.Charge, args.Cents, args.Money, args.Reason, fmt.Sprintf("re_%04d", len(booked)+1)}
	if err := appendLine(path, b); err != nil {
		return err
	}
	if err := c.steps(ctx, "booked as "+b.Receipt); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Output, "refunded %d.%02d %s to the buyer of %s, receipt %s", b.Cents/100, b.Cents%100, b.Money, b.Order, b.Receipt)
	return err
}

// ReadLedger reads all bookings; none if there is no ledger.
func ReadLedger(path string) ([]Booking, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Booking
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		var b Booking
		if err := strictjson.Unmarshal(s.Bytes(), &b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// appendLine appends a booking and syncs it to the disk.
func appendLine(path string, b Booking) error {
	line, err := strictjson.Marshal(b)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

func restart(ctx context.Context, c Call) error {
	var args struct {
		Service string `json:"service"`
	}
	if err := c.decode(&args); err != nil {
		return err
	}
	if err := c.steps(ctx, "draining "+args.Service, "starting "+args.Service); err != nil {
		return err
	}
	path := filepath.Join(c.Workspace, "restarted.txt")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s %s\n", args.Service, time.Now().UTC().Format(time.RFC3339)), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Output, "%s is healthy again", args.Service)
	return err
}
