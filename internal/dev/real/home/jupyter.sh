#!/bin/bash
#SBATCH --job-name=jupyterlab
#SBATCH --cpus-per-task=1
#SBATCH --mem=1500M
#SBATCH --time=1:00:00
#SBATCH --output=jupyterlab.%j.log
# A random port on the node's own name, announced in the log before the server
# binds it; then the server's own words, with its token.
HOSTNAME=$(hostname)
PORT=$(shuf -i 10000-60000 -n 1)
echo "JupyterLab will listen on: $HOSTNAME:$PORT"
app=lab
command -v jupyter-lab >/dev/null || app=notebook # Debian 12 has no JupyterLab
exec jupyter "${JUPYTER_APP:-$app}" --no-browser --ip="$HOSTNAME" --port="$PORT"
