package detect

import "testing"

func TestInvitation(t *testing.T) {
	for text, port := range map[string]int{
		"Prodigy is up, go to http://localhost:8080 to annotate":              8080,
		"* The viewer is accessible via http://127.0.0.1:7860/":               7860,
		"Label Studio available at http://0.0.0.0:8085/":                      8085,
		"Please point your browser to http://cn012:5005/":                     5005,
		"Open http://localhost:6900 in a browser":                             6900,
		"phoenix ui is ready: view it in your browser: http://localhost:6006": 6006,
		"The explorer is running at\n    http://localhost:4040/":              4040,
		"Navigate to http://[::]:9001/app":                                    9001,
		"View the dashboard in your browser:\n  http://localhost:8265":        8265,
	} {
		got := detect(t, text+"\n")
		if !got.Found || got.Port != port || got.App != appWeb || !got.Guess {
			t.Errorf("%q: %+v", text, got)
		}
	}
	for _, decoy := range []string{
		"worker listening on http://localhost:40231",
		"OAuth callback server listening on http://localhost:8765/callback",
		"Please open https://wandb.ai/lab/run/42 to see the run",
		"View the run at https://app.example.org/x",
		"connecting to http://localhost:8000",
		"Prometheus metrics available at http://0.0.0.0:9090/metrics",
		"Running on public URL: https://abc.gradio.live",
		"client listening on http://127.0.0.1:33121",
		"available at https://pypi.org/simple",
		"waiting for the login at http://localhost:8400",
	} {
		if got := detect(t, decoy+"\n"); got.Found {
			t.Errorf("%q: %+v", decoy, got)
		}
	}
	known := detect(t, "Docs available at http://localhost:9000\n[I 10:00:00 ServerApp] http://cn01:8888/lab?token=abc\n")
	if known.App != appJupyter || known.Port != 8888 {
		t.Errorf("a known app comes first: %+v", known)
	}
	for text, app := range map[string]string{
		"MATLAB can be accessed at http://cn01:8888/index.html":                                      "matlab",
		"Spark web UI at http://cn01:4040":                                                           "spark",
		"root INFO Theia app listening on http://localhost:3000.":                                    appWeb,
		"root INFO [vscode-jupyter] loaded\nroot INFO Theia app listening on http://localhost:3000.": appWeb,
	} {
		if got := detect(t, text+"\n"); !got.Found || got.App != app {
			t.Errorf("%q: %+v, want %s", text, got, app)
		}
	}
}
