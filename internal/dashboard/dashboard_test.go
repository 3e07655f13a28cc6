package dashboard

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/dev/must"
	"tunctl/internal/home"
)

// openings are the links that a desktop was told to open, and what its browser does with each.
type openings struct {
	mu    sync.Mutex
	links []string
	visit func(link string) error
}

func (o *openings) open(_ context.Context, link string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.links = append(o.links, link)
	return o.visit(link)
}

// get is a browser that loads a link's page.
func get(link string) error {
	res, err := onLoopback.Get("http://" + hostOf(link) + "/")
	if err == nil {
		err = res.Body.Close()
	}
	return err
}

func TestDoorButton(t *testing.T) {
	o := &openings{visit: get}
	s, _ := serveWith(t, Options{Client: client.New(home.In(t.TempDir())), Desktop: action.Desktop{Open: o.open}})
	for _, c := range []struct {
		who     string
		headers map[string]string
		status  int
		opened  int
		notice  string
	}{
		{"a foreign page", map[string]string{"Origin": "http://127.0.0.1:8888"}, http.StatusForbidden, 0, ""},
		{"a program without an origin", map[string]string{"Origin": ""}, http.StatusForbidden, 0, ""},
		{"another name of loopback", map[string]string{"Host": "localhost:" + s.port}, http.StatusMisdirectedRequest, 0, ""},
		{"the button", nil, http.StatusSeeOther, 1, "/?opened"},
		{"the button at once again", nil, http.StatusSeeOther, 1, "/?soon"},
	} {
		status, h, text := fetch(t, s.door, http.MethodPost, "/open", "", c.headers)
		if status != c.status || len(o.links) != c.opened || h.Get("Location") != c.notice {
			t.Errorf("%s: %d, to %q, with %d pages", c.who, status, h.Get("Location"), len(o.links))
		}
		for _, link := range o.links {
			if host, _, _ := strings.Cut(hostOf(link), ":"); strings.Contains(fmt.Sprint(h, text), host) {
				t.Errorf("%s is told the address: %v %s", c.who, h, text)
			}
		}
	}
	pressLater := func() string {
		s.mu.Lock()
		s.pressed = s.pressed.Add(-pressEvery)
		s.mu.Unlock()
		_, h, _ := fetch(t, s.door, http.MethodPost, "/open", "", nil)
		return h.Get("Location")
	}
	pressLater()
	if len(o.links) != 2 || hostOf(o.links[0]) == hostOf(o.links[1]) || !strings.HasSuffix(hostOf(o.links[1]), ".localhost:"+s.port) {
		t.Errorf("opened %q", o.links)
	}
	for want, err := range map[string]error{"/?browser": desktop.ErrNoBrowser, "/?failed": desktop.ErrNotOpened} {
		o.visit = func(string) error { return err }
		if got := pressLater(); got != want {
			t.Errorf("%v leads to %q, want %q", err, got, want)
		}
	}
}

func TestOpenPageWithoutNames(t *testing.T) {
	o := &openings{visit: func(link string) error {
		if strings.Contains(link, ".localhost") {
			return nil // it shows that there is no such name
		}
		return get(link)
	}}
	s, _ := serveWith(t, Options{Client: client.New(home.In(t.TempDir())), Desktop: action.Desktop{Open: o.open}})
	s.arriveFor = time.Millisecond
	must.Do(t, s.OpenPage(t.Context()))
	if len(o.links) != 2 || !strings.HasPrefix(o.links[1], "http://127.0.0.1:") || strings.Contains(o.links[1], ":"+s.port+"/") {
		t.Fatalf("opened %q", o.links)
	}
	if status, bearer := enterAs(t, o.links[1]); status != http.StatusOK || bearer == "" {
		t.Errorf("the page at the free port: %d, %q", status, bearer)
	}
}

func TestListenOnATakenPort(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		paths := home.In(t.TempDir())
		foreign, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(paths.DashboardPort())))
		if err != nil {
			t.Skipf("no port at %s: %v", address, err)
		}
		t.Run(address, func(t *testing.T) {
			s, link := serveWith(t, Options{Paths: paths})
			if s.Bookmark() != "" || s.port == strconv.Itoa(paths.DashboardPort()) {
				t.Errorf("the dashboard is at %s, its bookmark %q", s.door, s.Bookmark())
			}
			if status, _ := enterAs(t, link); status != http.StatusOK {
				t.Errorf("a page elsewhere: %d", status)
			}
		})
		must.Do(t, foreign.Close())
		t.Run("after "+address, func(t *testing.T) {
			s, _ := serveWith(t, Options{Paths: paths})
			if want := fmt.Sprintf("http://127.0.0.1:%d/", paths.DashboardPort()); s.Bookmark() != want {
				t.Errorf("the bookmark is %q, want %q", s.Bookmark(), want)
			}
		})
	}
}

func TestDoorForFormerPages(t *testing.T) {
	s, link := serve(t)
	for _, host := range []string{"abcdefghijklmnopqrstuvwxyz.localhost:" + s.port, hostOf(link)} {
		path := "/"
		if host == hostOf(link) {
			path = "/locked" // where a page goes whose link was used
		}
		if status, h, _ := fetch(t, host, http.MethodGet, path, "", nil); status != http.StatusSeeOther || h.Get("Location") != "http://"+s.door+"/?locked" {
			t.Errorf("%s: %d to %q", host, status, h.Get("Location"))
		}
	}
	if status, h, _ := fetch(t, "localhost:"+s.port, http.MethodGet, "/", "", nil); status != http.StatusSeeOther || h.Get("Location") != "http://"+s.door+"/" {
		t.Errorf("localhost: %d to %q", status, h.Get("Location"))
	}
	_, _, text := fetch(t, s.door, http.MethodGet, "/?locked", "", nil)
	for _, want := range []string{"This page needs a new address", "<code>tunctl dashboard</code>", `aria-label="Copy tunctl dashboard"`, `action="open"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the locked page lacks %q: %s", want, text)
		}
	}
	if _, _, text := fetch(t, s.door, http.MethodGet, "/?<b>", "", nil); strings.Contains(text, "<b>") || strings.Count(text, "<button") != 1 {
		t.Errorf("the page with the button: %s", text)
	}
}

// maxWeight is what the page and all its files may weigh together.
const maxWeight = 100_000

var (
	fileOf    = regexp.MustCompile(`(?:src|href)="([^"#]+)"`)
	elsewhere = regexp.MustCompile(`(?:src|href|url|import|fetch)[^\n]{0,4}["'(]\s*(?:https?:)?//`)
)

func TestAssets(t *testing.T) {
	weight := 0
	page := ""
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
		return err
	})
	must.Do(t, err)
	if t.Logf("the page weighs %d bytes", weight); weight > maxWeight {
		t.Errorf("the page weighs %d bytes, more than %d", weight, maxWeight)
	}
	for _, inline := range []string{"<style", "style=", "onclick=", "javascript:", "<script>"} {
		if strings.Contains(page, inline) {
			t.Errorf("the page has %s in it", inline)
		}
	}
	for _, m := range fileOf.FindAllStringSubmatch(page, -1) {
		if _, err := fs.Stat(assets, "assets/"+m[1]); err != nil {
			t.Error(err)
		}
	}
}

func TestAssetsPreload(t *testing.T) {
	_, link := serve(t)
	for path, want := range map[string]bool{"/": true, "/model.js": false} {
		_, h, _ := fetch(t, hostOf(link), http.MethodGet, path, "", nil)
		if got := slices.Contains(h["Link"], "<model.js>; rel=modulepreload; fetchpriority=low"); got != want {
			t.Errorf("%s names modules to load: %q", path, h["Link"])
		}
	}
}

func TestAssetsHaveNoSecret(t *testing.T) {
	s, link := serve(t)
	_, once, _ := strings.Cut(link, "#")
	for _, host := range []string{hostOf(link), s.door} {
		status, _, text := fetch(t, host, http.MethodGet, "/", "", nil)
		if status != http.StatusOK || !strings.Contains(text, "<title>tunctl dashboard</title>") {
			t.Errorf("%s: %d %.100s", host, status, text)
		}
		if strings.Contains(text, once) || strings.Contains(text, s.id) || strings.Contains(text, ".localhost") {
			t.Errorf("%s has a secret in it: %s", host, text)
		}
	}
}
