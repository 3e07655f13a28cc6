package forwards_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/sshconfig"
)

// options are those of a session without a host.
func options(t *testing.T) forwards.Options {
	return forwards.Options{
		ListenOptions: forward.ListenOptions{Name: "nb", Waiting: func(bool) {}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
		Kept:          &forwards.Kept{}, Changed: func() {},
		Listen: func(context.Context, string, string) (net.Listener, error) { return nil, api.ErrDown },
	}
}

// nowhere is a dialer that reaches nothing.
type nowhere struct{}

func (nowhere) Dial(context.Context, string, string) (net.Conn, error) { return nil, api.ErrRefused }

func spec(t *testing.T, text string) configs.ForwardSpec {
	t.Helper()
	s, err := configs.ParseForward(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASessionWithoutForwardsHasNone(t *testing.T) {
	var none *forwards.Set
	none.Lead(forwards.Targets{})
	none.Close()
	if len(none.Status()) != 0 || none.OfPage("") != nil || none.Ports().Page != 0 || none.HostListeners().Others {
		t.Error("it has some")
	}
}

func TestForwardsListenWhereTheyListenedLast(t *testing.T) {
	free := spec(t, "0:db.int:5432")
	open := func(last forwards.Ports) forwards.Ports {
		set := forwards.New(t.Context())
		defer set.Close()
		list := []*forwards.Forward{{Spec: free}, {IsPage: true, Page: "tensorboard"}, {IsPage: true}}
		o := options(t)
		o.Last = last
		if err := set.Open(list, o); err != nil {
			t.Fatal(err)
		}
		if names := set.Status(); names[len(names)-1].Endpoint != "tensorboard" {
			t.Errorf("the other pages are not last: %+v", names)
		}
		return set.Ports()
	}
	first := open(forwards.Ports{})
	if first.Page == 0 || first.Picked["tensorboard"] == 0 || first.Picked[free.String()] == 0 {
		t.Fatalf("picked %+v", first)
	}
	if again := open(first); again.Page != first.Page || again.Picked["tensorboard"] != first.Picked["tensorboard"] || again.Picked[free.String()] != first.Picked[free.String()] {
		t.Errorf("picked %+v, then %+v", first, again)
	}
}

func TestForwardsAreOpenedAllOrNone(t *testing.T) {
	set := forwards.New(t.Context())
	defer set.Close()
	list := []*forwards.Forward{{IsPage: true}, {Spec: configs.ForwardSpec{Kind: api.ForwardLocal, Listen: "/nonexistent/folder/a.sock", Target: "db.int:5432"}}}
	if err := set.Open(list, options(t)); err == nil || !strings.HasPrefix(err.Error(), "forward ") {
		t.Fatalf("err = %v", err)
	}
	if st := set.Status(); len(st) != 0 {
		t.Errorf("some are open: %+v", st)
	}
	if conn, err := net.DialTimeout("tcp", list[0].Local.Addr().String(), time.Second); err == nil {
		_ = conn.Close()
		t.Error("the first still listens")
	}
}

func TestOnlyAddedForwardsAreRemoved(t *testing.T) {
	set := forwards.New(t.Context())
	defer set.Close()
	config, added := spec(t, "0:db.int:5432"), spec(t, "0:db.int:6006")
	if err := set.Open([]*forwards.Forward{{Spec: config}, {Spec: added, Added: true}}, options(t)); err != nil {
		t.Fatal(err)
	}
	removed := set.Remove([]configs.ForwardSpec{config, added})
	if len(removed) != 1 || set.To(config) == nil || set.To(added) != nil || len(set.Specs(true)) != 0 {
		t.Errorf("removed %+v", removed)
	}
}

func TestAForwardThatLeadsNowhereShowsWhy(t *testing.T) {
	set := forwards.New(t.Context())
	defer set.Close()
	if err := set.Open([]*forwards.Forward{{IsPage: true}, {IsPage: true, Page: "tensorboard"}}, options(t)); err != nil {
		t.Fatal(err)
	}
	shows := func(page string) string { return shownAt(t, set.OfPage(page).Local.Addr()) }
	why := forward.Reason{Title: "Waiting in the queue"}
	set.Lead(forwards.Targets{Why: why})
	if got := shows(""); !strings.Contains(got, why.Title) {
		t.Errorf("the main page shows %.200q", got)
	}
	main := &forward.Target{Dialer: nowhere{}, Network: "tcp", Address: "cn01:8888"}
	set.Lead(forwards.Targets{Main: main, Announced: true, Why: why})
	if got := shows("tensorboard"); !strings.Contains(got, "Waiting for tensorboard") {
		t.Errorf("a page that is not announced shows %.200q", got)
	}
}

// shownAt is the page at a local address, "" if nobody listens there.
func shownAt(t *testing.T, at netip.AddrPort) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.String()+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	browser := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := browser.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

func TestThePageOfASessionThatIsDownIsKeptForItsTab(t *testing.T) {
	for name, used := range map[string]bool{"a tab is open": true, "no browser was there": false} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			defer o.Kept.Close()
			open := func(o forwards.Options) (*forwards.Set, netip.AddrPort) {
				set := forwards.New(t.Context())
				if err := set.Open([]*forwards.Forward{{IsPage: true}}, o); err != nil {
					t.Fatal(err)
				}
				return set, set.OfPage("").Local.Addr()
			}
			set, at := open(o)
			set.Lead(forwards.Targets{Why: forward.Reason{Title: "Waiting in the queue"}})
			if used {
				shownAt(t, at)
			}
			o.Kept.Keep(t.Context(), set, o)
			o.Kept.Explain(o.Name, forward.Reason{Title: "nb is not running"})
			if got := shownAt(t, at); strings.Contains(got, "nb is not running") != used {
				t.Errorf("the page is %.200q", got)
			}
			o.Name, o.Port = "another session", int(at.Port())
			if set, now := open(o); now != at {
				t.Errorf("a session that wants port %d got %d", at.Port(), now.Port())
			} else {
				set.Close()
			}
		})
	}
}

func TestTheForwardsOfTheSSHConfigAreThoseOfTheSession(t *testing.T) {
	got, err := forwards.FromSSHConfig("narval", sshconfig.Settings{
		LocalForwards: []string{"8080 [db.int]:80", "127.0.0.1:81 /run/a.sock"}, DynamicForwards: []string{"1080"},
	})
	want := []configs.ForwardSpec{
		{Kind: api.ForwardLocal, Listen: "localhost:8080", Target: "db.int:80"},
		{Kind: api.ForwardLocal, Listen: "127.0.0.1:81", Target: "/run/a.sock"},
		{Kind: api.ForwardDynamic, Listen: "localhost:1080"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := forwards.FromSSHConfig("narval", sshconfig.Settings{}); err == nil {
		t.Error("a host without forwards has some")
	}
}
