#!/bin/bash
#SBATCH --job-name=jupyter-loopback
#SBATCH --cpus-per-task=1
#SBATCH --mem=1500M
#SBATCH --time=1:00:00
#SBATCH --output=jupyter-loopback.%j.log
# Serves the node's loopback only: the login node cannot dial it.
PORT=$(shuf -i 10000-60000 -n 1)
echo "Node: $(hostname)  Port: $PORT"
app=lab
command -v jupyter-lab >/dev/null || app=notebook # Debian 12 has no JupyterLab
exec jupyter "${JUPYTER_APP:-$app}" --no-browser --ip=127.0.0.1 --port="$PORT"
