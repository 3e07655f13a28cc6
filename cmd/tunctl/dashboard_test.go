package main

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"tunctl/internal/action"
	"tunctl/internal/client"
	"tunctl/internal/dashboard"
	"tunctl/internal/home"
)

func TestADashboardOfTheTrayEndsWithIt(t *testing.T) {
	ctx, quit := context.WithCancel(t.Context())
	var opened []*url.URL
	d := &trayDashboard{ctx: ctx, options: dashboard.Options{
		Client: client.New(home.In(t.TempDir())),
		Desktop: action.Desktop{Open: func(_ context.Context, address string) error {
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
	get := func(u *url.URL) error {
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + u.Host + "/")
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	for _, u := range opened {
		if err := get(u); err != nil {
			t.Error(err)
		}
	}
	quit()
	d.serving.Wait()
	for _, u := range opened {
		if get(u) == nil {
			t.Error("the dashboard outlives the tray")
		}
	}
}
