package dashboard

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/action"
)

// silent is a listener that nobody connects to.
type silent chan struct{}

func (l silent) Accept() (net.Conn, error) {
	<-l
	return nil, net.ErrClosed
}

func (l silent) Close() error {
	select {
	case <-l:
	default:
		close(l)
	}
	return nil
}

func (l silent) Addr() net.Addr { return &net.TCPAddr{} }

func TestTheServerEndsAWhileAfterItsLastPageWasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{listener: make(silent), links: map[digest]time.Time{}}
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background()) }()
		ended := func() bool {
			synctest.Wait()
			return len(served) == 1
		}
		time.Sleep(linkFor - time.Second)
		first, second := s.pageOpened(), s.pageOpened()
		first()
		time.Sleep(24 * time.Hour)
		if ended() {
			t.Fatal("it ended while a page was open")
		}
		second()
		time.Sleep(Linger - time.Second)
		reloaded := s.pageOpened()
		time.Sleep(time.Hour)
		if ended() {
			t.Fatal("it ended although the page was loaded again")
		}
		reloaded()
		time.Sleep(Linger + time.Second)
		if !ended() {
			t.Fatal("it still serves without a page")
		}
	})
}

func TestTheServerEndsIfNoPageIsEverOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{listener: make(silent), links: map[digest]time.Time{}}
		began := time.Now()
		if err := s.Serve(context.Background()); err != nil || time.Since(began) != linkFor {
			t.Errorf("it ended after %v: %v", time.Since(began), err)
		}
	})
}

func TestTheServerWaitsForAPageThatIsJustBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		s := &Server{
			listener: make(silent), links: map[digest]time.Time{},
			Options: Options{Desktop: action.Desktop{Open: func(context.Context, string) error { opened++; return nil }}},
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background()) }()
		synctest.Wait()
		s.pageOpened()()
		time.Sleep(Linger - time.Second)
		if err := s.OpenPage(t.Context()); err != nil || opened != 1 {
			t.Fatalf("%d opened, %v", opened, err)
		}
		time.Sleep(linkFor - time.Second) // a browser may take long to start
		synctest.Wait()
		if len(served) > 0 {
			t.Fatal("it ended before the page was opened")
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// maxWeight is what the page and all its files may weigh together.
const maxWeight = 300_000

var (
	fileOf    = regexp.MustCompile(`(?:src|href)="([^"#]+)"`)
	importOf  = regexp.MustCompile(`from "\./([^"]+)"`)
	elsewhere = regexp.MustCompile(`(?:src|href|url|import|fetch)[^\n]{0,4}["'(]\s*(?:https?:)?//`)
)

func TestThePageIsLightAndNothingInItIsInlineOrFromElsewhere(t *testing.T) {
	weight := 0
	page := ""
	imported := map[string]bool{}
	err := fs.WalkDir(assets, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(assets, path)
		weight += len(text)
		if strings.HasSuffix(path, ".html") {
			page = string(text)
		}
		if found := elsewhere.Find(text); found != nil {
			t.Errorf("%s loads something from elsewhere: %s", path, found)
		}
		for _, m := range importOf.FindAllStringSubmatch(string(text), -1) {
			imported[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("the page weighs %d bytes", weight); weight > maxWeight {
		t.Errorf("the page weighs %d bytes, more than %d", weight, maxWeight)
	}
	for _, inline := range []string{"<style", "style=", "onclick=", "javascript:", "<script>"} {
		if strings.Contains(page, inline) {
			t.Errorf("the page has %s in it", inline)
		}
	}
	loaded := map[string]bool{}
	for _, m := range fileOf.FindAllStringSubmatch(page, -1) {
		loaded[m[1]] = true
		if _, err := fs.Stat(assets, "assets/"+m[1]); err != nil {
			t.Error(err)
		}
	}
	for name := range imported {
		if !loaded[name] {
			t.Errorf("%s is loaded only after the module that imports it: the page should name it", name)
		}
	}
}

func TestThePageIsServedWithoutABearerValueAndHasNoneInIt(t *testing.T) {
	s, link := serve(t)
	_, once, _ := strings.Cut(link, "#")
	res, err := http.Get("http://" + s.host + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), "<title>tunctl dashboard</title>") {
		t.Fatalf("%s, %v: %.100s", res.Status, err, text)
	}
	if strings.Contains(string(text), once) {
		t.Error("the page has the one-time value in it")
	}
}
