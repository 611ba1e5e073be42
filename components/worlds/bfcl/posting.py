"""Simulated microblog, after BFCL's function documents of TwitterAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Refused, Result, Service


class Posting(Service):
    """Service of one account's tweets with comments, retweets and followed users.

    Args:
        config: any of ``username``, ``password``, ``authenticated``, ``tweets``, ``comments``,
            ``retweets``, ``following_list``, ``tweet_counter``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        tweets = {int(key): tweet for key, tweet in entries.get("tweets", {}).items()}
        self._password = entries.get("password", "")
        self.state = {
            "username": entries.get("username", "john"),
            "authenticated": entries.get("authenticated", False),
            "tweets": tweets,
            "comments": {int(key): each for key, each in entries.get("comments", {}).items()},
            "retweets": entries.get("retweets", {}),
            "following_list": entries.get("following_list", []),
            "tweet_counter": entries.get("tweet_counter", len(tweets)),
        }

    def _user(self) -> str:
        if not self.state["authenticated"]:
            raise Refused("nobody is logged in: call authenticate_twitter")
        return self.state["username"]  # type: ignore[no-any-return]

    def _tweet(self, tweet_id: int) -> dict[str, Any]:
        if tweet_id not in self.state["tweets"]:
            raise Refused(f"there is no tweet {tweet_id}")
        return self.state["tweets"][tweet_id]  # type: ignore[no-any-return]

    def _tweets(self, **wanted: str) -> list[dict[str, Any]]:
        """Return copies of the tweets whose named fields contain these texts."""
        return [
            copy.deepcopy(tweet)
            for tweet in self.state["tweets"].values()
            if all(text in tweet[name] for name, text in wanted.items())
        ]

    def authenticate_twitter(self, username: str, password: str) -> Result:
        """Log in."""
        right = (username, password) == (self.state["username"], self._password)
        self.state["authenticated"] = self.state["authenticated"] or right
        return {"authentication_status": right}

    def posting_get_login_status(self) -> Result:
        """Return whether the user is logged in."""
        return {"login_status": self.state["authenticated"]}

    def post_tweet(
        self, content: str, tags: list[str] | None = None, mentions: list[str] | None = None
    ) -> Result:
        """Post a tweet."""
        number = self.state["tweet_counter"]
        tweet = {"id": number, "username": self._user(), "content": content}
        self.state["tweets"][number] = {**tweet, "tags": tags or [], "mentions": mentions or []}
        self.state["tweet_counter"] += 1
        return copy.deepcopy(self._tweet(number))

    def get_tweet(self, tweet_id: int) -> Result:
        """Return a tweet."""
        return copy.deepcopy(self._tweet(tweet_id))

    def get_user_tweets(self, username: str) -> Result:
        """Return the tweets of a user."""
        tweets = [tweet for tweet in self._tweets() if tweet["username"] == username]
        return {"user_tweets": tweets}

    def search_tweets(self, keyword: str) -> Result:
        """Return the tweets that contain a text."""
        return {"matching_tweets": self._tweets(content=keyword)}

    def comment(self, tweet_id: int, comment_content: str) -> Result:
        """Comment on a tweet."""
        self._tweet(tweet_id)
        entry = {"username": self._user(), "content": comment_content}
        self.state["comments"].setdefault(tweet_id, []).append(entry)
        return {"comment_status": "commented"}

    def get_tweet_comments(self, tweet_id: int) -> Result:
        """Return the comments on a tweet."""
        self._tweet(tweet_id)
        return {"comments": copy.deepcopy(self.state["comments"].get(tweet_id, []))}

    def mention(self, tweet_id: int, mentioned_usernames: list[str]) -> Result:
        """Mention users in a tweet."""
        self._user()
        self._tweet(tweet_id)["mentions"] += mentioned_usernames
        return {"mention_status": "mentioned"}

    def retweet(self, tweet_id: int) -> Result:
        """Retweet a tweet, once."""
        self._tweet(tweet_id)
        shared = self.state["retweets"].setdefault(self._user(), [])
        if tweet_id in shared:
            return {"retweet_status": "retweeted already"}
        shared.append(tweet_id)
        return {"retweet_status": "retweeted"}

    def follow_user(self, username_to_follow: str) -> Result:
        """Follow a user."""
        self._user()
        new = username_to_follow not in self.state["following_list"]
        self.state["following_list"] += [username_to_follow] * new
        return {"follow_status": new}

    def unfollow_user(self, username_to_unfollow: str) -> Result:
        """Stop following a user."""
        self._user()
        there = username_to_unfollow in self.state["following_list"]
        if there:
            self.state["following_list"].remove(username_to_unfollow)
        return {"unfollow_status": there}

    def list_all_following(self) -> Result:
        """Return the followed users."""
        self._user()
        return {"following_list": [*self.state["following_list"]]}

    def get_user_stats(self, username: str) -> Result:
        """Count the tweets, followed users and retweets of a user."""
        own = username == self.state["username"]
        return {
            "tweet_count": len(self.get_user_tweets(username)["user_tweets"]),
            "following_count": len(self.state["following_list"]) if own else 0,
            "retweet_count": len(self.state["retweets"].get(username, [])),
        }
