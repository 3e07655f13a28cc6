package main

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"tunctl/internal/actions"
	"tunctl/internal/client"
	"tunctl/internal/dashboard"
	"tunctl/internal/home"
)

func TestTheTrayServesOneDashboardForAllItsPages(t *testing.T) {
	ctx, quit := context.WithCancel(t.Context())
	var opened []*url.URL
	d := &trayDashboard{ctx: ctx, options: dashboard.Options{
		Client: client.New(home.In(t.TempDir())),
		Desktop: actions.Desktop{Open: func(_ context.Context, address string) error {
			u, err := url.Parse(address)
			opened = append(opened, u)
			return err
		}},
	}}
	for range 2 {
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if opened[0].Host != opened[1].Host || opened[0].Fragment == opened[1].Fragment {
		t.Errorf("opened are %s and %s", opened[0], opened[1])
	}
	get := func() error {
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + opened[0].Host + "/")
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	if err := get(); err != nil {
		t.Error(err)
	}
	quit()
	d.serving.Wait()
	if get() == nil {
		t.Error("the dashboard outlives the tray")
	}
}
