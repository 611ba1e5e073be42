"""What the services do, by the function documents of BFCL; expected values by hand."""

import pytest

from components.worlds.bfcl.episode_services import SERVICES, EpisodeServices, run_gold
from components.worlds.bfcl.service import call_function
from rlcomp.episodes.tool_calls import ToolCall, parse_python_calls
from rlcomp.errors import DataError

HOME = {
    "type": "directory",
    "contents": {
        "a.txt": {"type": "file", "content": "pear\napple\nfig"},
        ".b": {"type": "file", "content": "pear\nplum"},
        "box": {"type": "directory", "contents": {"c.txt": {"type": "file", "content": "c"}}},
    },
}


@pytest.fixture
def ask():
    """Calls in Python's notation, on one service from a config: answers, and its last state."""

    def run(name, config, calls):
        service = SERVICES[name](config)
        parsed = parse_python_calls(f"[{calls}]")
        return [call_function(service.functions(), call) for call in parsed], service.state

    return run


@pytest.fixture
def shell(ask):
    def run(calls):
        told, state = ask("GorillaFileSystem", {"root": {"home": HOME}}, calls)
        return [next(iter(each.values()), None) for each in told], state["root"]["home"]

    return run


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("pwd()", "/home"),
        ("ls()", ["a.txt", "box"]),
        ("ls(a=True)", ["a.txt", ".b", "box"]),
        ("cat('a.txt')", "pear\napple\nfig"),
        ("sort('a.txt')", "apple\nfig\npear"),
        ("tail('a.txt', 2)", "apple\nfig"),
        ("tail('a.txt', lines=0)", ""),
        ("wc('a.txt')", 3),
        ("wc('a.txt', mode='w')", 3),
        ("wc('a.txt', mode='c')", 14),
        ("grep('a.txt', 'p')", ["pear", "apple"]),
        ("diff('a.txt', '.b')", "- apple\n+ plum\n- fig\n+ "),
        ("find()", ["./a.txt", "./.b", "./box", "./box/c.txt"]),
        ("find(path='box', name='c')", ["box/c.txt"]),
        ("find(name='box')", ["./box"]),
        ("du()", "24 bytes"),  # 14, 9 and 1 characters
        ("du(human_readable=True)", "0.02 KB"),
        ("echo('hi')", "hi"),
    ],
)
def test_queries_of_the_file_system_change_nothing(shell, call, told):
    before = shell("pwd()")[1]

    assert shell(call) == ([told], before)


@pytest.mark.parametrize(
    ("calls", "a", "box"),
    [
        ("touch('n')", {"n": ""}, {}),
        ("mkdir('n')", {"n": {}}, {}),
        ("echo('x', 'n'), echo('y', file_name='n')", {"n": "y"}, {}),
        ("cp('a.txt', 'n')", {"n": "pear\napple\nfig"}, {}),
        ("cp('a.txt', 'box')", {}, {"a.txt": "pear\napple\nfig"}),
        ("mv('a.txt', 'n')", {"n": "pear\napple\nfig", "a.txt": None}, {}),
        ("mv('a.txt', 'box')", {"a.txt": None}, {"a.txt": "pear\napple\nfig"}),
        ("cd('box'), touch('n'), cd('..'), touch('m')", {"m": ""}, {"n": ""}),
        ("rm('a.txt')", {"a.txt": None}, {}),
        ("mkdir('n'), rmdir('n')", {}, {}),
    ],
)
def test_the_file_system_changes_only_the_named_entries(shell, calls, a, box):
    before = {"a.txt": "pear\napple\nfig", ".b": "pear\nplum", "box": {"c.txt": "c"} | box} | a

    assert shell(calls)[1] == {name: each for name, each in before.items() if each is not None}


@pytest.mark.parametrize(
    "call",
    [
        "cd('..')",
        "cd('a.txt')",
        "cd('box/c')",
        "cat('box')",
        "cat('none')",
        "touch('a.txt')",
        "mkdir('box')",
        "mkdir('x/y')",
        "mkdir('..')",
        "mkdir('')",
        "echo('x', 'box')",
        "echo('x', 'box/n')",
        "cp('none', 'n')",
        "cp('a.txt', '.b')",
        "cp('box', 'box')",
        "mv('box', 'a.txt')",
        "rm('none')",
        "rmdir('box')",
        "find(path='none')",
        "wc('a.txt', 'x')",
        "tail('a.txt', '2')",
        "ls(a=1)",
        "cat()",
        "cat('a.txt', 'b')",
        "cat(name='a.txt')",
        "_here()",
        "functions()",
        "snapshot()",
    ],
)
def test_the_file_system_refuses_and_stays(ask, call):
    config = {"root": {"home": HOME}}
    before = ask("GorillaFileSystem", config, "pwd()")[1]

    (told,), state = ask("GorillaFileSystem", config, call)
    assert list(told) == ["error"]
    assert state == before


def test_the_disk_gets_full_before_the_memory():
    files = SERVICES["GorillaFileSystem"]({"root": {"home": HOME}})
    functions = files.functions()
    sizes = []
    for n in range(20):  # each copies all there is
        call_function(functions, ToolCall("mkdir", {"dir_name": f"d{n}"}))
        for name in [*files.state["root"]["home"]]:
            call_function(functions, ToolCall("cp", {"source": name, "destination": f"d{n}"}))
        sizes.append(len(str(files.state)))
    assert max(sizes) < 60_000

    deep = [call_function(functions, ToolCall("cd", {"folder": f"d{n}"})) for n in range(3)]
    assert "error" not in deep[0]
    for _ in range(40):
        call_function(functions, ToolCall("mkdir", {"dir_name": "x"}))
        call_function(functions, ToolCall("cd", {"folder": "x"}))
    assert len(call_function(functions, ToolCall("pwd", {}))["current_working_directory"]) < 80
    long = call_function(functions, ToolCall("echo", {"content": "x" * 10**6, "file_name": "y"}))
    assert "full" in long["error"]


def test_of_a_disk_that_is_full_nothing_is_lost():
    half = "x" * 500_000

    def asked(content, calls):
        files = SERVICES["GorillaFileSystem"]({"root": {"home": HOME}})
        for name in ("y", "z"):
            call_function(
                files.functions(), ToolCall("echo", {"content": content, "file_name": name})
            )
        for call in parse_python_calls(f"[{calls}]"):
            call_function(files.functions(), call)
        return files.state["root"]["home"]

    assert list(asked(half, "ls()")) == ["a.txt", ".b", "box", "y"]
    kept = asked(half, f"cp('y', 'z'), mv('y', 'box'), echo('{'x' * 9000}', 'y')")
    assert kept["box"]["y"] == half
    assert kept["y"] == "x" * 9000


TYRES = ("frontLeft", "frontRight", "rearLeft", "rearRight")
STOCKS = {
    "A": {"price": 10.0, "percent_change": 0.5, "volume": 1.0, "MA(5)": 9.0, "MA(20)": 8.0},
    "B": {"price": 30.0, "percent_change": -2.0, "volume": 1.0, "MA(5)": 9.0, "MA(20)": 8.0},
}
ACCOUNT = {
    "orders": {
        "7": {"symbol": "A", "price": 9.0, "num_shares": 2, "status": "Completed"},
        "order_type": "Buy",
    },
    "account_info": {"account_id": 1, "balance": 100.0, "binding_card": 5},
    "authenticated": True,
    "order_counter": 8,
    "stocks": STOCKS,
    "watch_list": ["A"],
    "transaction_history": [{"amount": 1, "timestamp": "2024-01-05 10:00:00"}],
}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("get_stock_info('A')", STOCKS["A"]),
        ("get_watchlist()", {"watchlist": ["A"]}),
        ("get_available_stocks('Technology')", {"stock_list": ["AAPL", "GOOG", "MSFT", "NVDA"]}),
        ("get_symbol_by_name('Tesla')", {"symbol": "TSLA"}),
        ("get_symbol_by_name('Nobody')", {"symbol": "Stock not found"}),
        ("filter_stocks_by_price(['A', 'B', 'C'], 5, 20)", {"filtered_stocks": ["A"]}),
        (
            "notify_price_change(['A', 'B'], 1)",
            {"notification": "changed by more than 1 %: B"},
        ),
        ("notify_price_change(['A'], 1)", {"notification": "no significant change"}),
        ("get_account_info()", ACCOUNT["account_info"]),
        (
            "get_order_details(7)",
            {
                "id": 7,
                "order_type": "Buy",
                "symbol": "A",
                "price": 9.0,
                "amount": 2,
                "status": "Completed",
            },
        ),
        ("get_order_history()", {"order_history": [7]}),
        (
            "get_transaction_history('2024-01-05', '2024-01-05')",
            {"transaction_history": ACCOUNT["transaction_history"]},
        ),
        ("get_transaction_history(start_date='2024-01-06')", {"transaction_history": []}),
        ("trading_get_login_status()", {"status": True}),
        ("get_current_time()", {"current_time": "10:30 AM"}),
    ],
)
def test_queries_of_the_trading_service_change_nothing(ask, call, told):
    before = ask("TradingBot", ACCOUNT, "get_watchlist()")[1]

    assert ask("TradingBot", ACCOUNT, call) == ([told], before)


def test_an_order_is_open_until_it_is_cancelled(ask):
    told, state = ask("TradingBot", ACCOUNT, "place_order('Buy', 'A', 10.0, 10), cancel_order(8)")

    bought = {"order_type": "Buy", "price": 10.0, "amount": 10}
    assert told[0] == {"order_id": 8, "status": "Open", **bought}
    assert told[1] == {"order_id": 8, "status": "Cancelled"}
    assert state["orders"][8] == {"symbol": "A", "status": "Cancelled", **bought}
    assert (state["order_counter"], state["account_info"]["balance"]) == (9, 100.0)


def test_money_and_the_watchlist_move(ask):
    calls = "fund_account(20), withdraw_funds(50.0), add_to_watchlist('B'), add_to_watchlist('B'), "
    _, state = ask("TradingBot", ACCOUNT, calls + "remove_stock_from_watchlist('A')")

    assert state["account_info"]["balance"] == 70.0
    assert [entry["amount"] for entry in state["transaction_history"]] == [1, 20, 50.0]
    assert state["watch_list"] == ["B"]


@pytest.mark.parametrize(
    "call",
    [
        "place_order('Buy', 'A', 10.0, 11)",  # 110 of 100
        "place_order('Hold', 'A', 1.0, 1)",
        "place_order('Buy', 'A', 0.0, 1)",
        "place_order('Sell', 'A', 1.0, 0)",
        "place_order('Buy', 'C', 1.0, 1)",
        "place_order('Buy', 'A', 1.0, 1.5)",
        "cancel_order(7)",
        "cancel_order(8)",
        "fund_account(-1)",
        "withdraw_funds(101)",
        "add_to_watchlist('C')",
        "remove_stock_from_watchlist('B')",
        "get_stock_info('C')",
        "trading_login('', 'x')",
    ],
)
def test_trading_refuses_and_stays(ask, call):
    before = ask("TradingBot", ACCOUNT, "get_watchlist()")[1]

    (told,), state = ask("TradingBot", ACCOUNT, call)
    assert list(told) == ["error"]
    assert state == before


def test_an_account_without_orders_has_the_one_that_episodes_ask_for(ask):
    told, _ = ask("TradingBot", {"authenticated": True}, "get_order_history(), cancel_order(12446)")

    assert told == [{"order_history": [12446]}, {"order_id": 12446, "status": "Cancelled"}]


def test_an_account_can_be_emptied(ask):
    (told,), state = ask("TradingBot", ACCOUNT, "withdraw_funds(100.0)")

    assert "error" not in told
    assert state["account_info"]["balance"] == 0.0


def test_trading_needs_a_login_for_the_account(ask):
    told, _ = ask(
        "TradingBot",
        ACCOUNT,
        "trading_logout(), trading_logout(), get_account_info(), get_order_history(), "
        "get_transaction_history(), get_order_details(7), fund_account(1), "
        "trading_login('x', 'y'), get_account_info()",
    )

    assert ["error" in each for each in told] == [False, *[True] * 6, False, False]


BLOG = {
    "username": "me",
    "password": "p",
    "tweets": {"0": {"id": 0, "username": "me", "content": "hi", "tags": [], "mentions": []}},
    "tweet_counter": 1,
}


def test_posts_are_counted_and_answered(ask):
    told, state = ask(
        "TwitterAPI",
        BLOG,
        "mention(0, ['@c']), authenticate_twitter('me', 'q'), authenticate_twitter('me', 'p'), "
        "post_tweet('ho', tags=['#a']), mention(1, ['@b']), comment(0, 'so'), retweet(1), "
        "retweet(1), follow_user('u'), follow_user('u'), search_tweets('ho'), "
        "get_tweet_comments(0), get_user_stats('me'), get_tweet(0), unfollow_user('u')",
    )

    new = {"id": 1, "username": "me", "content": "ho", "tags": ["#a"], "mentions": []}
    said = {"username": "me", "content": "so"}
    assert list(told[0]) == ["error"]
    assert told[1:] == [
        {"authentication_status": False},
        {"authentication_status": True},
        new,
        {"mention_status": "mentioned"},
        {"comment_status": "commented"},
        {"retweet_status": "retweeted"},
        {"retweet_status": "retweeted already"},
        {"follow_status": True},
        {"follow_status": False},
        {"matching_tweets": [new | {"mentions": ["@b"]}]},
        {"comments": [said]},
        {"tweet_count": 2, "following_count": 1, "retweet_count": 1},
        BLOG["tweets"]["0"],
        {"unfollow_status": True},
    ]
    assert state == {
        "username": "me",
        "authenticated": True,
        "tweets": {0: BLOG["tweets"]["0"], 1: new | {"mentions": ["@b"]}},
        "comments": {0: [said]},
        "retweets": {"me": [1]},
        "following_list": [],
        "tweet_counter": 2,
    }


def test_followers_of_another_user_are_not_shown(ask):
    calls = "get_user_stats('u')"
    told, _ = ask("TwitterAPI", BLOG | {"authenticated": True, "following_list": ["u"]}, calls)

    assert told == [{"tweet_count": 0, "following_count": 0, "retweet_count": 0}]


def test_queries_of_the_microblog_change_nothing(ask):
    calls = (
        "posting_get_login_status(), list_all_following(), get_user_tweets('me'), get_tweet(9), "
    )
    calls += "comment(9, 'x')"
    told, _ = ask("TwitterAPI", BLOG | {"authenticated": True, "following_list": ["u"]}, calls)

    assert told[:2] == [{"login_status": True}, {"following_list": ["u"]}]
    missing = {"error": "there is no tweet 9"}
    assert told[2:] == [{"user_tweets": [BLOG["tweets"]["0"]]}, missing, missing]


def test_the_first_id_that_is_counted_is_1(ask):
    told, _ = ask("MessageAPI", {"user_map": {"M": "m"}}, "message_login('m'), add_contact('L')")

    assert told[1]["user_id"] == "USR001"


def test_messages_are_sent_and_the_latest_deleted(ask):
    config = {"user_map": {"J": "USR001", "K": "USR009", "M": "m"}, "inbox": [{"USR001": ["old"]}]}
    told, state = ask(
        "MessageAPI",
        config,
        "send_message('USR001', 'x'), message_login('USR002'), message_login('USR009'), "
        "add_contact('L'), add_contact('L'), send_message('USR010', 'a'), "
        "send_message('USR010', 'b'), delete_message('USR010'), delete_message('USR009'), "
        "view_messages_sent(), search_messages('OLD'), get_user_id('L'), get_message_stats(), "
        "list_users(), message_get_login_status()",
    )

    assert [place for place, each in enumerate(told) if "error" in each] == [0, 1, 4, 8]
    assert told[3]["user_id"] == "USR010"
    assert [told[5]["message_id"], told[6]["message_id"]] == [1, 2]
    assert told[9:] == [
        {"messages": {"USR001": ["old"], "USR010": ["a"]}},
        {"results": [{"receiver_id": "USR001", "message": "old"}]},
        {"user_id": "USR010"},
        {"stats": {"received_count": 2, "total_contacts": 2}},
        {"user_list": ["J", "K", "M", "L"]},
        {"login_status": True},
    ]
    assert (state["message_count"], state["current_user"]) == (1, "USR009")


def test_tickets_are_created_changed_and_ended(ask):
    told, state = ask(
        "TicketAPI",
        {"ticket_queue": [{"id": 4, "status": "Open"}, {"odd": {}}]},
        "create_ticket('x'), ticket_login('me', ''), ticket_login('me', 'p'), "
        "create_ticket('x', priority=6), "
        "create_ticket('x', 'why', 5), edit_ticket(4, {'priority': 2}), edit_ticket(4, {'id': 5}), "
        "resolve_ticket(4, 'done'), close_ticket(5), close_ticket(5), close_ticket(6), "
        "get_user_tickets(status='Closed'), get_ticket(4), ticket_get_login_status(), logout(), "
        "logout()",
    )

    new = {"id": 5, "title": "x", "description": "why", "priority": 5}
    assert [place for place, each in enumerate(told) if "error" in each] == [0, 3, 6, 9, 10]
    assert told[1:3] == [{"success": False}, {"success": True}]
    assert told[4] == new | {"status": "Open"}
    closed = new | {"status": "Closed", "created_by": "me"}
    assert told[11] == {"tickets": [closed]}
    old = {"id": 4, "status": "Resolved", "priority": 2, "resolution": "done"}
    assert told[12:] == [old, {"login_status": True}, {"success": True}, {"success": False}]
    assert state == {
        "ticket_queue": [old, {"odd": {}}, closed],
        "ticket_counter": 6,
        "current_user": None,
    }


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("add(1, 2.5)", 3.5),
        ("subtract(1, 2)", -1),
        ("multiply(3, 4)", 12),
        ("divide(a=1, b=4)", 0.25),
        ("power(2, 10)", 1024.0),
        ("absolute_value(-3)", 3),
        ("percentage(1, 8)", 12.5),
        ("round_number(2.567, 1)", 2.6),
        ("logarithm(value=36.0, base=6.0, precision=4)", 2.0),
        ("logarithm(20, 10, 5)", 1.301),  # 1.30103 to 5 digits: 1.3010
        ("square_root(2, 4)", 1.414),
        ("sum_values([1, 2, 3])", 6),
        ("mean([3, 16, 62])", 27.0),
        ("standard_deviation([1, 3])", 1.0),  # sqrt((1 + 1) / 2)
        ("max_value([1, 3])", 3),
        ("min_value([1, 3])", 1),
        ("imperial_si_conversion(2, 'foot', 'cm')", 60.96),
        ("imperial_si_conversion(1, 'inch', 'm')", 0.0254),
        ("imperial_si_conversion(1, 'yard', 'foot')", 3.0),
        ("imperial_si_conversion(1, 'mile', 'km')", 1.609344),
        ("imperial_si_conversion(1, 'lb', 'g')", 453.59237),
        ("imperial_si_conversion(16, 'oz', 'lb')", 1.0),
        ("si_unit_conversion(3, 'km', 'm')", 3000.0),
        ("si_unit_conversion(3, 'Mg', 'hg')", 30000.0),
        ("si_unit_conversion(3, 'us', 'ns')", 3000.0),
        ("si_unit_conversion(3, 'cL', 'dL')", 0.3),
        ("si_unit_conversion(3, 'daA', 'A')", 30.0),
        ("square_root(2, 1)", 1.0),
        ("square_root(0, 4)", 0.0),
        ("si_unit_conversion(3, 'mg', 'g')", 0.003),
    ],
)
def test_the_calculator_calculates(ask, call, result):
    ((told,), _) = ask("MathAPI", {}, call)

    # Of one rounding in floats.
    assert told == {"result": pytest.approx(result, rel=1e-12)}


@pytest.mark.parametrize(
    "call",
    [
        "divide(1, 0)",
        "power(-8, 0.5)",
        "power(10, 400)",
        "power(0, -1)",
        "multiply(1e300, 1e300)",
        "logarithm(-1, 10, 5)",
        "logarithm(2, 1, 5)",
        "square_root(-1, 5)",
        "square_root(2, 1000000)",
        "mean([])",
        "max_value([])",
        "standard_deviation([])",
        "mean(['1'])",
        "si_unit_conversion(1, 'km', 'kg')",
        "imperial_si_conversion(1, 'lb', 'm')",
        f"add({'9' * 400}, 1)",
    ],
)
def test_the_calculator_refuses_what_cannot_be_computed(ask, call):
    ((told,), _) = ask("MathAPI", {}, call)

    assert list(told) == ["error"]


READY = "lockDoors(False, ['driver', 'passenger', 'rear_left', 'rear_right']), pressBrakePedal(1), "


def test_an_engine_starts_with_locked_doors_fuel_and_the_pedal_down(ask):
    fuel = {"fuelLevel": 10.0}
    started = {"engineState": "running", "fuelLevel": 10.0, "batteryVoltage": 12.6}

    told, state = ask("VehicleControlAPI", fuel, f"{READY} startEngine('START')")
    assert told == [
        {"lockStatus": "locked", "remainingUnlockedDoors": 0},
        {"brakePedalStatus": "pressed", "brakePedalForce": 1000.0},
        started,
    ]
    assert state["engineState"] == "running"
    for config, before in (
        ({}, READY),
        (fuel, READY + "lockDoors(True, ['rear_left']), "),
        (fuel, READY + "pressBrakePedal(0.9), "),
        (fuel, READY + "releaseBrakePedal(), "),
    ):
        told, state = ask("VehicleControlAPI", config, before + "startEngine('START')")
        assert ("error" in told[-1], state["engineState"]) == (True, "stopped"), before


@pytest.mark.parametrize(
    ("call", "told", "changed"),
    [
        ("fillFuelTank(40)", {"fuelLevel": 50.0}, {"fuelLevel": 50.0}),
        ("startEngine('STOP')", None, {}),
        (
            "activateParkingBrake('engage')",
            {
                "parkingBrakeStatus": "engaged",
                "_parkingBrakeForce": 400.0,
                "_slopeAngle": 0.0,
            },
            {"parkingBrakeStatus": "engaged", "parkingBrakeForce": 400.0},
        ),
        ("setHeadlights('on')", {"headlightStatus": "on"}, {"headLightStatus": "on"}),
        ("setHeadlights('auto')", {"headlightStatus": "off"}, {}),
        (
            "adjustClimateControl(68, unit='fahrenheit', mode='cool')",
            {"currentTemperature": 20.0, "climateMode": "cool", "humidityLevel": 50.0},
            {"acTemperature": 20.0, "acMode": "cool"},
        ),
        ("set_navigation('x')", {"status": "navigating to x"}, {"destination": "x"}),
        ("displayCarStatus('fuel')", {"status": {"fuelLevel": 10.0}}, {}),
        (
            "check_tire_pressure()",
            {"tirePressure": {f"{t}TirePressure": 32.0 for t in TYRES}},
            {},
        ),
        ("find_nearest_tire_shop()", None, {}),
        ("display_log(['a'])", {"log": ["a"]}, {}),
        ("get_current_speed()", {"currentSpeed": 0.0}, {}),
        ("get_outside_temperature_from_google()", {"outsideTemperature": 22.0}, {}),
        ("get_outside_temperature_from_weather_com()", {"outsideTemperature": 22.0}, {}),
        ("get_zipcode_based_on_city('Rivermist')", {"zipcode": "83214"}, {}),
        ("estimate_distance('74532', cityB='83214')", {"distance": 750.0}, {}),
        ("estimate_distance('94016', '83214')", {"distance": 980.0}, {}),
        ("estimate_distance('69238', '51479')", {"distance": 630.0}, {}),
        ("activateParkingBrake('release')", None, {}),
        ("estimate_drive_feasibility_by_mileage(200)", {"canDrive": True}, {}),
        ("estimate_drive_feasibility_by_mileage(200.1)", {"canDrive": False}, {}),
        ("gallon_to_liter(10)", {"liter": 37.85411784}, {}),
        ("liter_to_gallon(37.85411784)", {"gallon": 10.0}, {}),
    ],
)
def test_car_functions_return_and_change_the_state(ask, call, told, changed):
    config = {"fuelLevel": 10.0}
    before = ask("VehicleControlAPI", config, "get_current_speed()")[1]

    (result,), state = ask("VehicleControlAPI", config, call)
    assert told in (None, result)
    assert "error" not in result
    assert state == before | changed


def test_cruise_control_needs_the_engine(ask):
    calls = f"{READY} setCruiseControl(55, True, 30), startEngine('START'), "
    calls += "setCruiseControl(55, True, 30), setCruiseControl(55, False, 20)"
    told, _ = ask("VehicleControlAPI", {"fuelLevel": 1.0}, calls)

    assert "error" in told[2]
    cruise = {"cruiseStatus": "active", "currentSpeed": 55, "distanceToNextVehicle": 30}
    assert told[4] == cruise
    assert told[5] == {"cruiseStatus": "inactive", "currentSpeed": 0, "distanceToNextVehicle": 20}


@pytest.mark.parametrize(
    "call",
    [
        "fillFuelTank(41)",
        "fillFuelTank(0)",
        "pressBrakePedal(1.1)",
        "lockDoors(True, ['trunk'])",
        "adjustClimateControl(20, fanSpeed=101)",
        "setCruiseControl(57, False, 1)",
        "setCruiseControl(125, False, 1)",
        "setHeadlights('dim')",
        "startEngine('GO')",
        "displayCarStatus('x')",
        "get_zipcode_based_on_city('Rome')",
        "estimate_distance('94016', '51479')",
    ],
)
def test_a_car_refuses_and_stays(ask, call):
    config = {"fuelLevel": 10.0}
    before = ask("VehicleControlAPI", config, "get_current_speed()")[1]

    (told,), state = ask("VehicleControlAPI", config, call)
    assert list(told) == ["error"]
    assert state == before


CARDS = {"c1": {"card_number": "1", "balance": 3000.0}}
TRAVELLER = {
    "credit_card_list": CARDS,
    "access_token": "t",
    "user_first_name": "Ann",
    "user_last_name": "Lee",
}
BOOK = "book_flight('t', 'c1', '2026-10-10', 'SFO', 'CIA', 'business')"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("travel_get_login_status()", {"status": True}),
        ("get_nearest_airport_by_city('Rome')", {"nearest_airport": "CIA"}),
        # In business twice 220 near by, in first class five times 1400 far away, in July a quarter
        # more.
        ("get_flight_cost('SFO', 'LAX', '2026-03-03', 'economy')", {"travel_cost_list": [220.0]}),
        ("get_flight_cost('SFO', 'LAX', '2026-07-03', 'business')", {"travel_cost_list": [550.0]}),
        ("get_flight_cost('CDG', 'LHR', '2026-03-03', 'first')", {"travel_cost_list": [7000.0]}),
        ("compute_exchange_rate('RMB', 'USD', 20000)", {"exchanged_value": 2857.14}),
        ("compute_exchange_rate('EUR', 'RMB', 8.0)", {"exchanged_value": 70.0}),
        ("get_all_credit_cards()", {"credit_card_list": CARDS}),
        ("get_credit_card_balance('t', 'c1')", {"card_balance": 3000.0}),
        ("get_booking_history('t')", {"booking_history": {}}),
        ("get_budget_fiscal_year()", {"budget_fiscal_year": "2026"}),
        (
            "verify_traveler_information('Ann', 'Lee', '1990-02-28', 'US1')",
            {"verification_status": True, "verification_failure": None},
        ),
        (
            "verify_traveler_information('Bob', 'Lee', '1990-02-28', 'US1')",
            {
                "verification_status": False,
                "verification_failure": "the name is not the user's",
            },
        ),
    ],
)
def test_queries_of_the_travel_agency_change_nothing(ask, call, told):
    before = ask("TravelAPI", TRAVELLER, "travel_get_login_status()")[1]

    assert ask("TravelAPI", TRAVELLER, call) == ([told], before)


def test_a_flight_is_booked_insured_invoiced_and_paid(ask):
    insure = "purchase_insurance('t', 'travel', 187.5, '3426812', 'c1')"
    both = "retrieve_invoice('t', '3426812', '498276044')"
    told, state = ask("TravelAPI", TRAVELLER, f"{BOOK}, {insure}, {both}")

    assert told[0] == {
        "booking_id": "3426812",
        "transaction_id": "45451592",
        "booking_status": True,
        "booking_history": {},
    }
    assert told[1] == {"insurance_id": "498276044", "insurance_status": True}
    booking = {
        "card_id": "c1",
        "travel_date": "2026-10-10",
        "travel_from": "SFO",
        "travel_to": "CIA",
        "travel_class": "business",
        "travel_cost": 2800.0,
        "transaction_id": "45451592",
    }
    insurance = {"booking_id": "3426812", "insurance_type": "travel", "insurance_cost": 187.5}
    assert told[2] == {"invoice": {"insurance_id": "498276044", **insurance, **booking}}
    assert state["booking_record"] == {"3426812": booking}
    assert state["insurance_record"] == {"498276044": insurance}
    assert state["credit_card_list"]["c1"]["balance"] == 3000.0 - 2800.0 - 187.5


def test_a_booking_that_is_cancelled_is_paid_back_and_its_number_is_not_issued_again(ask):
    cancel = "cancel_booking('t', '3426812')"
    before = ask("TravelAPI", TRAVELLER, "travel_get_login_status()")[1]

    told, state = ask("TravelAPI", TRAVELLER, f"{BOOK}, {cancel}")
    assert told[1] == {"cancel_status": True}
    assert state == before
    told, state = ask("TravelAPI", TRAVELLER, f"{BOOK}, {cancel}, {BOOK}")
    assert (told[2]["booking_id"], [*state["booking_record"]]) == ("3426813", ["3426813"])


def test_who_logs_in_gets_a_token_and_may_add_a_card(ask):
    login = "authenticate_travel('i', 's', 'r', 'read', 'Bob', 'Day')"
    card = "register_credit_card('251675', '2345', '08/2025', 'Bob Day', 567)"
    told, state = ask("TravelAPI", {}, f"{login}, {card}, set_budget_limit('251675', 9)")

    assert told[0] == {
        "expires_in": 3600,
        "access_token": "251675",
        "token_type": "Bearer",
        "scope": "read",
    }
    assert told[1:] == [{"card_id": "391310425148"}, {"budget_limit": 9.0}]
    assert state["credit_card_list"]["391310425148"] == {
        "card_number": "2345",
        "expiration_date": "08/2025",
        "cardholder_name": "Bob Day",
        "card_verification_number": 567,
        "balance": 10_000.0,
    }
    assert (state["access_token"], state["token_scope"]) == ("251675", "read")
    assert (state["user_first_name"], state["user_last_name"]) == ("Bob", "Day")


@pytest.mark.parametrize(
    "call",
    [
        "book_flight('x', 'c1', '2026-10-10', 'SFO', 'CIA', 'business')",
        "book_flight('t', 'c2', '2026-10-10', 'SFO', 'CIA', 'business')",
        "book_flight('t', 'c1', '2026-10-10', 'SFO', 'CIA', 'first')",  # 7000 of 3000
        "book_flight('t', 'c1', '2026-02-30', 'SFO', 'LAX', 'economy')",
        "book_flight('t', 'c1', '10/10/2026', 'SFO', 'LAX', 'economy')",
        "book_flight('t', 'c1', '2026-10-10', 'SFO', 'SFO', 'economy')",
        "book_flight('t', 'c1', '2026-10-10', 'SFO', 'Rome', 'economy')",
        "book_flight('t', 'c1', '2026-10-10', 'SFO', 'LAX', 'luxury')",
        "cancel_booking('t', '1')",
        "purchase_insurance('t', 'travel', 10.0, '1', 'c1')",
        "retrieve_invoice('t')",
        "retrieve_invoice('t', '1')",
        "retrieve_invoice('t', insurance_id='1')",
        "contact_customer_support('1', 'help')",
        "register_credit_card('t', '1', '2025-08', 'A', 1)",
        "register_credit_card('t', '', '08/2025', 'A', 1)",
        "get_credit_card_balance('t', 'c2')",
        "set_budget_limit('t', 0)",
        "authenticate_travel('', 's', 'r', 'read', 'A', 'B')",
        "authenticate_travel('i', 's', 'r', 'all', 'A', 'B')",
        "get_nearest_airport_by_city('Oslo')",
        "compute_exchange_rate('USD', 'XXX', 1.0)",
        "verify_traveler_information('Ann', 'Lee', 'x', 'US1')",
    ],
)
def test_a_travel_agency_refuses_and_stays(ask, call):
    before = ask("TravelAPI", TRAVELLER, "travel_get_login_status()")[1]

    (told,), state = ask("TravelAPI", TRAVELLER, call)
    assert list(told) == ["error"]
    assert state == before


@pytest.mark.parametrize("cost", [0, -5.0, 200.5])
def test_an_insurance_costs_something_that_the_card_has(ask, cost):
    insure = f"purchase_insurance('t', 'travel', {cost}, '3426812', 'c1')"
    told, state = ask("TravelAPI", TRAVELLER, f"{BOOK}, {insure}")

    assert list(told[1]) == ["error"]
    assert state["credit_card_list"]["c1"]["balance"] == 200.0


def test_support_answers_about_a_booking_and_does_nothing(ask):
    told, state = ask("TravelAPI", TRAVELLER, f"{BOOK}, contact_customer_support('3426812', 'Hm.')")

    assert "3426812" in told[1]["customer_support_message"]
    assert state == ask("TravelAPI", TRAVELLER, BOOK)[1]


def test_the_ground_truth_tells_the_last_state_and_what_the_last_turn_only_asks_for():
    world = EpisodeServices(
        ["GorillaFileSystem", "MathAPI"], {"GorillaFileSystem": {"root": {"home": HOME}}}
    )

    gold = run_gold(world, [["cat('a.txt')"], ["cd('box')", "touch('n')", "add(1, 2)", "pwd()"]])

    assert gold.state["GorillaFileSystem"]["root"]["home"]["box"] == {"c.txt": "c", "n": ""}
    assert gold.values == [{"result": 3}, {"current_working_directory": "/home/box"}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fly()", "there is no function 'fly'"),
        ("divide(1, 0)", "is refused"),
        ("1 + 1", "is not one call"),
    ],
)
def test_a_ground_truth_that_is_refused_is_no_episode(call, message):
    with pytest.raises(DataError, match=message):
        run_gold(EpisodeServices(["MathAPI"], {}), [[call]])


def test_an_excluded_function_cannot_be_called():
    assert "error" in EpisodeServices(["MathAPI"], {}, ["add"]).call(
        ToolCall("add", {"a": 1, "b": 2})
    )
    with pytest.raises(DataError, match="WebSearchAPI is not simulated"):
        EpisodeServices(["WebSearchAPI"], {})


@pytest.mark.parametrize(
    "call",
    [
        "register_credit_card('no', '2345', '08/2025', 'Bob Day', 567)",
        "get_credit_card_balance('no', 'c1')",
        "set_budget_limit('no', 9)",
        "cancel_booking('no', 'b1')",
        "get_booking_history('no')",
        "purchase_insurance('no', 'full', 9, 'b1', 'c1')",
        "retrieve_invoice('no', 'b1')",
        BOOK.replace("'t'", "'no'"),
    ],
)
def test_without_the_token_calls_fail_and_change_nothing(ask, call):
    (told,), state = ask("TravelAPI", TRAVELLER, call)
    _, before = ask("TravelAPI", TRAVELLER, "travel_get_login_status()")

    assert list(told) == ["error"]
    assert "token" in told["error"]
    assert state == before
