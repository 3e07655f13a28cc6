package mcp

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

func TestALineThatIsNoMessageIsAnsweredAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	in, assistant := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), Options{Version: "test"}, in, out) }()
	lines := bufio.NewScanner(answers)
	for _, c := range []struct{ line, want string }{
		{"hello", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{"jsonrpc":"2.0","id":1,`, `"code":-32700`},
		{"42", `"code":-32600`},
		{`{"id":1}`, `"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`, `"serverInfo"`},
		{"\n{", `"code":-32700`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\r", `"id":2,"result"`},
	} {
		if _, err := io.WriteString(assistant, c.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), c.want) {
			t.Errorf("%q is answered with %q", c.line, lines.Text())
		}
	}
	_ = assistant.Close()
	if err := <-served; err != nil {
		t.Errorf("the end of the input ended it with %v", err)
	}
}
