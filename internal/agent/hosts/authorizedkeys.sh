# Arguments: install, remove or explain, the line, and the key in it. What fails is on stderr.
umask 077
dir=$HOME/.ssh
file=$dir/authorized_keys

fail() {
	echo "$1" >&2
	exit 1
}

install_line() {
	[ -d "$dir" ] || mkdir "$dir" || exit 1
	[ -e "$file" ] || true >"$file" || exit 1
	[ -f "$file" ] || fail "$file is no file"
	[ -w "$file" ] || fail "$file is not writable"
	! grep -qF "$2" "$file" || exit 0
	size=$(wc -c <"$file") || exit 1
	line=$1
	[ -z "$(tail -c 1 "$file")" ] || line="
$line" # the last line has no end
	printf '%s\n' "$line" >>"$file" && grep -qxF "$1" "$file" && exit 0
	# A full disk may have taken half of it.
	dd if=/dev/null of="$file" bs=1 seek="$((size))" 2>/dev/null
	fail "it could not be written"
}

remove_line() {
	[ -f "$file" ] && grep -qF "$2" "$file" || exit 0
	real=$file
	if [ -h "$file" ]; then
		real=$(readlink -f "$file") || fail "it is a link that cannot be followed"
	fi
	temp=$real.tunctl
	if cp -p "$real" "$temp" && { grep -vF "$2" "$real" >"$temp" || [ $? -eq 1 ]; } && mv -f "$temp" "$real"; then
		exit 0
	fi
	rm -f "$temp"
	fail "the line with $2 could not be removed"
}

explain() {
	for path in "$HOME" "$dir" "$file"; do
		case $(ls -ldL "$path") in
		?????w* | ????????w*)
			echo "other users can change $path, so sshd's StrictModes ignores keys there: chmod go-w $path"
			exit 0
			;;
		esac
	done
	elsewhere=$(cat /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf 2>/dev/null | grep -i '^[[:space:]]*AuthorizedKeysFile' | head -n 1)
	if [ -n "$elsewhere" ]; then
		echo "the host reads keys elsewhere ($elsewhere): ask the centre where keys belong"
	else
		echo "the centre may read keys elsewhere, take them by its portal only, or accept none"
	fi
}

case $1 in
install) install_line "$2" "$3" ;;
remove) remove_line "$2" "$3" ;;
explain) explain ;;
esac
