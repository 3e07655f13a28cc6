package api

// Apps are the names of the apps that are recognised in logs, which are the values of `app =` of a
// session, in the order in which a log that announces several is resolved: apps to work in, then
// pages to look at, then models to talk to, then dashboards of a computation, then any web server.
func Apps() []string {
	return []string{
		"jupyter", "rstudio", "matlab", "code-server", "vscode-tunnel", "marimo", "pluto", "novnc", "vnc", "paraview", "command",
		"streamlit", "gradio", "bokeh", "vite", "nextjs", "vllm", "ollama", "tensorboard", "mlflow", "dask", "ray", "spark", "http",
	}
}
