// Command openai-agent is an agent for any model with OpenAI's chat completions API. It
// may list and read the files of a folder. A person must allow each write and deletion.
//
//	export OPENAI_API_KEY=…
//	go run ./examples/openai-agent --model gpt-4.1-mini             # a web server
//	go run ./examples/openai-agent --model gpt-4.1-mini --terminal  # in this terminal
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/askance-dev/askance/examples/openai-agent/react"
	"github.com/askance-dev/askance/gateway/agent"
)

// system is the system prompt.
const system = `You help with the files of one folder. Use the tools; call several at once where they do not depend on each other. Some calls are decided by a person: if one is denied, respect it and say so.`

type options struct {
	baseURL, model    string
	http, data        string
	workspace, policy string
	session           string
	terminal          bool
}

func main() {
	var o options
	flag.StringVar(&o.baseURL, "base-url", cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1"), "where the model's API is (OPENAI_BASE_URL); the key is taken from OPENAI_API_KEY")
	flag.StringVar(&o.model, "model", cmp.Or(os.Getenv("OPENAI_MODEL"), "gpt-4.1-mini"), "model to ask (OPENAI_MODEL)")
	flag.StringVar(&o.http, "http", "127.0.0.1:8787", "where to serve")
	flag.BoolVar(&o.terminal, "terminal", false, "talk here instead of serving")
	flag.StringVar(&o.workspace, "workspace", ".", "folder whose files the agent works with")
	flag.StringVar(&o.policy, "policy", "", "rule file (default: the one of the example)")
	flag.StringVar(&o.data, "data", "", "folder of the journal, to go on after a restart (default: a temporary one)")
	flag.StringVar(&o.session, "session", "terminal", "session to talk in, with --terminal")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	h, err := openHouse(ctx, o)
	if err != nil {
		return err
	}
	defer h.Close()
	bot, err := react.New(react.Config{
		Name: "openai-agent", Description: "Works with the files of a folder.", System: system,
		BaseURL: o.baseURL, APIKey: os.Getenv("OPENAI_API_KEY"), Model: o.model, Tools: describeTools(),
	})
	if err != nil {
		return err
	}
	runner, err := agent.New(agent.Config{As: h.as, Agents: []agent.Agent{bot}, Tools: h.toolNames(), Log: h.log})
	if err != nil {
		return err
	}
	defer runner.Close()
	if err := runner.Resume(ctx); err != nil {
		return err
	}
	if o.terminal {
		return talk(ctx, h, runner, bot.Info().Name, o.session, os.Stdin, os.Stdout)
	}
	return serve(ctx, h, runner, o.http, func(url string) { fmt.Println("the agent is at", url) })
}
