// Command embedded runs an engine inside a Go program, with two tools and a person
// who is asked in the terminal.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/askance-dev/askance"
)

const policy = `
version: 1
name: shop
rules:
  - {name: lookups, tool: find_order, behavior: allow}
  - {name: refunds, tool: refund, behavior: ask}
`

type order struct {
	ID string `json:"id" jsonschema:"the number on the invoice"`
}

type payment struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

func findOrder(_ context.Context, in order) (payment, error) {
	return payment{Order: in.ID, Cents: 19900}, nil
}

func refund(_ context.Context, in payment) (string, error) {
	return fmt.Sprintf("refunded %d cents of order %s", in.Cents, in.Order), nil
}

func ask(_ context.Context, r askance.Request) askance.Response {
	fmt.Printf("%s %s: approve? [y/n] ", r.Tool, r.Input)
	var answer string
	if _, err := fmt.Scanln(&answer); err != nil || answer != "y" {
		return askance.Reject("The shop says no")
	}
	return askance.Approve()
}

func main() {
	ctx := context.Background()
	app, err := askance.Open(ctx, askance.Rules(policy), []askance.Tool{
		askance.Func("find_order", "Find an order.", findOrder),
		askance.Func("refund", "Pay an order back.", refund),
	}, askance.Approver("ann", ask))
	if err != nil {
		log.Fatal(err)
	}
	defer app.Close()
	found, err := app.Call(ctx, "find_order", order{ID: "A-1042"})
	if err != nil {
		log.Fatal(err)
	}
	paid, err := app.Call(ctx, "refund", found.Output) // a person decides
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(paid.Output)
}
