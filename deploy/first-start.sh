#!/bin/sh
# Once, before a cluster of three is started for the first time: settings, secrets and the folder of
# each node below ROOT (ns, n0, n1, n2).
#
#   first-start [ROOT]        /var/lib/dledger unless given
#
# It refuses when one of them is there already: a node that lost its folder forgot whom it voted for,
# so it must be replaced (dledger node replace), never made again.
set -eu
umask 077
root=${1:-/var/lib/dledger}
for name in n0 n1 n2; do
    if [ -e "$root/$name/node.toml" ]; then
        echo "$root/$name is made already; replace a node that is lost: dledger node replace" >&2
        exit 1
    fi
done
for name in n0 n1 n2; do
    if [ -e "$root/$name/$name-data" ]; then
        echo "$root/$name/$name-data holds a node's data without its node.toml; move it away, or" \
            "bring node.toml back" >&2
        exit 1
    fi
done

# A run that fails takes back what it made, so that it can be run again.
take_back() {
    for name in n0 n1 n2; do
        rm -rf "$root/$name/node.toml" "$root/$name/$name-data"
    done
    rm -f "$root/ns/cluster.secret"
}
trap take_back EXIT
trap 'exit 130' HUP INT TERM
mkdir -p "$root/ns" "$root/n0" "$root/n1" "$root/n2"
python -c 'import secrets; print(secrets.token_hex(32))' >"$root/ns/cluster.secret"
# These containers talk to each other on one machine. Nodes on several: docs/tls.md.
dledger node init "$root/n0/node.toml" --secret-file "$root/ns/cluster.secret" \
    --no-tls --name-server ns:9876 --listen 0.0.0.0 --member n0=n0 --member n1=n1 --member n2=n2
for name in n1 n2; do
    dledger node init "$root/$name/node.toml" --like "$root/n0/node.toml" --name "$name" \
        --listen 0.0.0.0
done
trap - EXIT
