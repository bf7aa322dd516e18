package executor

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// pipes are a program's outputs, each copied by a goroutine. The program gets
// the files themselves, so that waiting for it is not waiting for everything
// that inherited them.
type pipes struct {
	ours, theirs []*os.File
	to           []io.Writer // of ours
	copies       sync.WaitGroup
	eof          chan struct{} // closed when no process holds the other ends
}

func newPipes() *pipes { return &pipes{eof: make(chan struct{})} }

// into makes a pipe that is copied to w.
func (p *pipes) into(w io.Writer) (*os.File, error) {
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.ours, p.theirs, p.to = append(p.ours, r), append(p.theirs, theirs), append(p.to, w)
	p.copies.Go(func() { _, _ = io.Copy(w, r) }) // ends at EOF, or when the pipe is closed
	return theirs, nil
}

// handedOver is called when the program has its ends.
func (p *pipes) handedOver() {
	closeAll(p.theirs)
	go func() { p.copies.Wait(); close(p.eof) }() // finish waits for it
}

// finish waits at most grace for the end of the pipes and ends every goroutine.
// What a pipe holds then is read, too: under load a copy may not have been woken.
func (p *pipes) finish(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	var rest []func()
	select {
	case <-p.eof:
	case <-timer.C:
		for i, r := range p.ours {
			rest = append(rest, unread(r, p.to[i]))
		}
	}
	p.close()
	<-p.eof
	for _, read := range rest {
		read()
	}
}

// close may be called more than once.
func (p *pipes) close() {
	closeAll(p.theirs)
	closeAll(p.ours)
	p.copies.Wait()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // a second close is an error that nobody needs
	}
}

// capture keeps the beginning of what is written and counts the rest, so that
// an endless program costs no memory and is not blocked.
type capture struct {
	buf     bytes.Buffer
	dropped int
}

// Write never fails.
func (c *capture) Write(b []byte) (int, error) {
	n := min(len(b), toolcall.MaxOutputBytes-c.buf.Len())
	c.buf.Write(b[:n])
	c.dropped += len(b) - n
	return len(b), nil
}

func (c *capture) output() Output {
	out := Text(c.buf.String())
	out.dropped = c.dropped
	return out
}

// Bounds of standard error.
const (
	lineBytes = 1 << 10 // longer lines are cut
	tailLines = 20      // last lines that an error text repeats
	tailBytes = 4 << 10 // and about their length together; above what one line can have
)

// lineWriter passes on what is written line by line. A carriage return ends a
// line too: programs redraw their progress with it.
type lineWriter struct {
	emit func(string)
	line []byte
	last []string
}

// Write never fails.
func (l *lineWriter) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\n' || c == '\r':
			l.flush()
		case len(l.line) < lineBytes:
			l.line = append(l.line, c)
		}
	}
	return len(b), nil
}

// flush ends the line, unless it is blank.
func (l *lineWriter) flush() {
	text := repair(string(l.line))
	l.line = l.line[:0]
	if strings.TrimSpace(text) == "" {
		return
	}
	l.emit(text)
	if l.last = append(l.last, text); len(l.last) > tailLines {
		l.last = l.last[1:]
	}
}

// tail is the last lines, as many whole ones as the bounds permit.
func (l *lineWriter) tail() string {
	first, size := len(l.last), 0
	for first > 0 && size+len(l.last[first-1]) < tailBytes {
		first--
		size += len(l.last[first]) + len("\n")
	}
	return strings.Join(l.last[first:], "\n")
}
