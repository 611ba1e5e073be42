"""Simulated stock trading, after BFCL's function documents of TradingBot."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Result, Service, ServiceError

# Invented, because the data has no sectors, companies or times, and no orders for accounts whose
# config has none. The episodes ask for order 12446 and expect these four stocks in Technology.
_SECTORS = {"Technology": ["AAPL", "GOOG", "MSFT", "NVDA"], "Automobile": ["TSLA"]}
_COMPANIES = {
    "Apple": "AAPL",
    "Google": "GOOG",
    "Tesla": "TSLA",
    "Microsoft": "MSFT",
    "Nvidia": "NVDA",
    "Alpha Tech": "ALPH",
    "Omega Industries": "OMEG",
    "Quasar Ltd.": "QUAS",
    "Neptune Systems": "NEPT",
    "Synex Solutions": "SYNX",
    "Zeta Corp": "ZETA",
}
_TIME, _TIMESTAMP = "10:30 AM", "2024-10-28 10:30:00"
_DEFAULT_ORDERS = {
    12446: {
        "order_type": "Sell",
        "symbol": "GOOG",
        "price": 2840.34,
        "amount": 5,
        "status": "Pending",
    }
}


class TradingService(Service):
    """Service of an account with orders and a watchlist; orders stay open until cancelled.

    Args:
        config: initial values, any of ``orders``, ``account_info``, ``authenticated``,
            ``order_counter``, ``stocks``, ``watch_list``, ``transaction_history``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        orders = entries.get("orders")
        orders = copy.deepcopy(_DEFAULT_ORDERS) if orders is None else _parse_orders(orders)
        self.state = {
            "orders": orders,
            "account_info": entries.get("account_info", {"balance": 10_000.0}),
            "authenticated": entries.get("authenticated", False),
            "order_counter": entries.get("order_counter", 12446),
            "stocks": entries.get("stocks", {}),
            "watch_list": entries.get("watch_list", []),
            "transaction_history": entries.get("transaction_history", []),
        }

    def _account(self) -> dict[str, Any]:
        if not self.state["authenticated"]:
            raise ServiceError("nobody is logged in: call trading_login")
        return self.state["account_info"]  # type: ignore[no-any-return]

    def _stock(self, symbol: str) -> dict[str, Any]:
        if symbol not in self.state["stocks"]:
            raise ServiceError(f"there is no stock {symbol!r}")
        return self.state["stocks"][symbol]  # type: ignore[no-any-return]

    def _order(self, order_id: int) -> dict[str, Any]:
        self._account()
        if order_id not in self.state["orders"]:
            raise ServiceError(f"there is no order {order_id}")
        return self.state["orders"][order_id]  # type: ignore[no-any-return]

    def trading_get_login_status(self) -> Result:
        """Return whether a user is logged in."""
        return {"status": self.state["authenticated"]}

    def trading_login(self, username: str, password: str) -> Result:
        """Log in with any name and password, as the data has none."""
        if not (username and password):
            raise ServiceError("a name and a password are needed")
        self.state["authenticated"] = True
        return {"status": "logged in"}

    def trading_logout(self) -> Result:
        """Log out."""
        self._account()
        self.state["authenticated"] = False
        return {"status": "logged out"}

    def get_current_time(self) -> Result:
        """Return the time, which is constant."""
        return {"current_time": _TIME}

    def get_symbol_by_name(self, name: str) -> Result:
        """Return the symbol of a company; ``Stock not found`` if it is unknown."""
        return {"symbol": _COMPANIES.get(name, "Stock not found")}

    def get_stock_info(self, symbol: str) -> Result:
        """Return the price and other figures of a stock."""
        return dict(self._stock(symbol))

    def get_available_stocks(self, sector: str) -> Result:
        """Return the stocks of a sector; none if it is unknown."""
        return {"stock_list": _SECTORS.get(sector, [])}

    def filter_stocks_by_price(
        self, stocks: list[str], min_price: float, max_price: float
    ) -> Result:
        """Return the given stocks with a price in a range."""
        symbols = [
            symbol
            for symbol in stocks
            if symbol in self.state["stocks"]
            and min_price <= self._stock(symbol)["price"] <= max_price
        ]
        return {"filtered_stocks": symbols}

    def notify_price_change(self, stocks: list[str], threshold: float) -> Result:
        """Return the given stocks that changed by more than a percentage."""
        changed = [s for s in stocks if abs(self._stock(s)["percent_change"]) > threshold]
        text = f"changed by more than {threshold} %: {', '.join(changed)}"
        return {"notification": text if changed else "no significant change"}

    def get_account_info(self) -> Result:
        """Return the account's number, balance and card."""
        return dict(self._account())

    def fund_account(self, amount: float) -> Result:
        """Deposit a sum."""
        return self._transfer("deposit", amount)

    def withdraw_funds(self, amount: float) -> Result:
        """Withdraw a sum."""
        return self._transfer("withdrawal", amount)

    def _transfer(self, kind: str, amount: float) -> Result:
        """Make a ``deposit`` or a ``withdrawal`` and record it."""
        account, sign = self._account(), 1 if kind == "deposit" else -1
        if amount <= 0 or account["balance"] + sign * amount < 0:
            raise ServiceError(f"amount is {amount}: must be above 0, and covered by the balance")
        account["balance"] += sign * amount
        self.state["transaction_history"].append(
            {"type": kind, "amount": amount, "timestamp": _TIMESTAMP}
        )
        return {"status": f"{kind} made", "new_balance": account["balance"]}

    def get_transaction_history(
        self, start_date: str | None = None, end_date: str | None = None
    ) -> Result:
        """Return the transactions between two days in the format YYYY-MM-DD, inclusive."""
        self._account()
        transactions = [
            entry
            for entry in self.state["transaction_history"]
            if (start_date or "") <= entry["timestamp"][:10] <= (end_date or "9999")
        ]
        return {"transaction_history": copy.deepcopy(transactions)}

    def place_order(self, order_type: str, symbol: str, price: float, amount: int) -> Result:
        """Place an order; the balance must cover the cost of a purchase."""
        account = self._account()
        self._stock(symbol)
        if order_type not in ("Buy", "Sell"):
            raise ServiceError(f"order_type is {order_type!r}: must be Buy or Sell")
        if price <= 0 or amount <= 0:
            raise ServiceError("price and amount must be above 0")
        if order_type == "Buy" and price * amount > account["balance"]:
            raise ServiceError(f"{price} times {amount} is more than the balance")
        order = {"order_type": order_type, "symbol": symbol, "price": price, "amount": amount}
        number = self.state["order_counter"]
        self.state["orders"][number] = {**order, "status": "Open"}
        self.state["order_counter"] += 1
        fields = ("order_type", "status", "price", "amount")
        return {"order_id": number, **{name: self._order(number)[name] for name in fields}}

    def get_order_details(self, order_id: int) -> Result:
        """Return an order."""
        return {"id": order_id, **self._order(order_id)}

    def cancel_order(self, order_id: int) -> Result:
        """Cancel an order that is neither completed nor cancelled."""
        order = self._order(order_id)
        if order["status"] in ("Completed", "Cancelled"):
            raise ServiceError(f"the order {order_id} is {order['status'].lower()}")
        order["status"] = "Cancelled"
        return {"order_id": order_id, "status": "Cancelled"}

    def get_order_history(self) -> Result:
        """Return the numbers of all orders."""
        self._account()
        return {"order_history": [*self.state["orders"]]}

    def get_watchlist(self) -> Result:
        """Return the watchlist."""
        return {"watchlist": [*self.state["watch_list"]]}

    def add_to_watchlist(self, stock: str) -> Result:
        """Add a stock to the watchlist unless it is there."""
        self._stock(stock)
        if stock not in self.state["watch_list"]:
            self.state["watch_list"].append(stock)
        return self.get_watchlist()

    def remove_stock_from_watchlist(self, symbol: str) -> Result:
        """Remove a stock from the watchlist."""
        if symbol not in self.state["watch_list"]:
            raise ServiceError(f"{symbol} is not on the watchlist")
        self.state["watch_list"].remove(symbol)
        return {"status": f"{symbol} removed"}


def _parse_orders(entries: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the orders by number.

    In the data an ``order_type`` beside the orders holds for all of them, and ``num_shares`` is
    another name of ``amount``.
    """
    shared = {"order_type": entries["order_type"]} if "order_type" in entries else {}
    orders = {}
    for key, order in entries.items():
        if key.isdecimal():
            fields = {"amount" if name == "num_shares" else name: order[name] for name in order}
            orders[int(key)] = {**shared, **fields}
    return orders
