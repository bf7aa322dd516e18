// Package cli is the askance command: one file for each sub-command, and what
// they share.
//
//	code := cli.Main(ctx, cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
//
// What every command keeps to:
//
//   - results go to Out, everything else to Err;
//   - --json makes the result one JSON document, or one per line where it is a
//     stream, and errors one JSON document on Err;
//   - the exit codes are those of ExitCode, the same for every command;
//   - settings come from flags, then ASKANCE_… variables, then askance.yaml (see
//     settings.go);
//   - nobody is asked anything unless In and Err are terminals;
//   - text of models, tools and other people is shown only through package
//     term, which lets no escape sequence pass.
package cli
