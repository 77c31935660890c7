#!/bin/sh
# Makes the certificates of README.md anew, in this folder. Keys of the authorities are thrown away.
set -e
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
scratch=$(mktemp -d)
for name in authority foreign-authority; do
    openssl req -x509 $key -days 36500 -subj /CN=$name \
        -keyout $scratch/$name.key -out $scratch/$name.pem
done
printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index\nserial=%s/serial\nnew_certs_dir=%s\n' \
    $scratch $scratch $scratch > $scratch/ca.cnf
printf 'default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n' >> $scratch/ca.cnf
touch $scratch/index
echo 1000 > $scratch/serial
sign() { # name, authority, subjectAltName, last day
    openssl req $key -subj /CN=$1 -keyout $1.key -out $scratch/$1.csr
    echo "subjectAltName=$3" > $scratch/$1.ext
    openssl ca -batch -notext -config $scratch/ca.cnf -extfile $scratch/$1.ext \
        -cert $scratch/$2.pem -keyfile $scratch/$2.key \
        -startdate 20200101000000Z -enddate $4 -in $scratch/$1.csr -out $1.pem
}
for node in n0 n1 n2; do
    sign $node authority URI:dledger-node:$node 21200101000000Z
done
sign unnamed authority DNS:localhost 21200101000000Z
sign expired authority URI:dledger-node:n1 20200102000000Z
sign foreign foreign-authority URI:dledger-node:n1 21200101000000Z
cp $scratch/authority.pem .
rm -r $scratch
