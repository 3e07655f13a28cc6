//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// assets is how many a page has.
const assets = 60

// servers are the servers beyond the host: one that sends and takes as much as a
// client asks for, one that echoes, and one for pages.
type servers struct {
	bulk, echo net.Listener
	page       *http.Server
	pageAt     string
	wg         sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newServers() (*servers, error) {
	s := &servers{conns: map[net.Conn]bool{}}
	var page net.Listener
	for _, l := range []*net.Listener{&s.bulk, &s.echo, &page} {
		var err error
		if *l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	s.pageAt = page.Addr().String()
	s.page = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(serveAsset)}
	s.wg.Go(func() { _ = s.page.Serve(page) }) // ends with Close
	s.wg.Go(func() { s.serve(s.bulk, serveBulk) })
	s.wg.Go(func() { s.serve(s.echo, func(c net.Conn) { _, _ = io.Copy(c, c) }) })
	return s, nil
}

// serveAsset answers with as many bytes as the path asks for.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	piece := make([]byte, min(size, chunk))
	for ; size > 0; size -= len(piece) {
		if _, err := w.Write(piece[:min(size, len(piece))]); err != nil {
			return // a client that is gone has its reasons
		}
	}
}

func (s *servers) serve(l net.Listener, each func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			each(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			_ = c.Close()
		})
	}
}

// chunk is how much is written and read at once here, so that the ends cost little.
const chunk = 1 << 20

// serveBulk reads one letter: "d" sends size bytes, "u" takes them and says so.
func serveBulk(c net.Conn) {
	order := make([]byte, 9)
	if _, err := io.ReadFull(c, order); err != nil {
		return
	}
	size := orderSize(order)
	if order[0] == 'd' {
		buf := make([]byte, chunk)
		for left := size; left > 0; left -= int64(len(buf)) {
			if _, err := c.Write(buf[:min(int64(len(buf)), left)]); err != nil {
				return
			}
		}
		return
	}
	if drain(c, size) == nil {
		_, _ = c.Write([]byte("k"))
	}
}

// drain reads size bytes and forgets them.
func drain(r io.Reader, size int64) error {
	buf := make([]byte, chunk)
	for size > 0 {
		n, err := r.Read(buf)
		size -= int64(n)
		if err != nil && size > 0 {
			return errors.Join(errors.New("the stream ended too soon"), err)
		}
	}
	return nil
}

func (s *servers) close() {
	if s == nil {
		return
	}
	_ = s.bulk.Close()
	_ = s.echo.Close()
	_ = s.page.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
